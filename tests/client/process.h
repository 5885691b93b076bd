// Programs as real processes.
#ifndef BEAMWRIGHT_TESTS_CLIENT_PROCESS_H_
#define BEAMWRIGHT_TESTS_CLIENT_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace beamwright::client {

struct ProcessResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;
};

// A process whose three streams are files. Wait must be called.
class Process {
 public:
  // environment: "NAME=value" entries added to ours.
  Process(const std::vector<std::string>& arguments, const std::string& input,
          const std::vector<std::string>& environment = {});

  pid_t pid() const { return pid_; }
  ProcessResult Wait();

 private:
  std::string folder_;
  pid_t pid_ = -1;
};

ProcessResult RunProcess(const std::vector<std::string>& arguments, const std::string& input = "",
                         const std::vector<std::string>& environment = {});

// `beamwright` with these arguments.
ProcessResult Beamwright(std::vector<std::string> arguments, const std::string& input = "",
                         const std::vector<std::string>& environment = {});

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_TESTS_CLIENT_PROCESS_H_
