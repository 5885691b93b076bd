// A real beamwright-server in a separate process, for one test.
#ifndef BEAMWRIGHT_TESTS_E2E_SERVER_PROCESS_H_
#define BEAMWRIGHT_TESTS_E2E_SERVER_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace beamwright::e2e {

// The bundle that the repository ships.
std::string DefaultModel();

class ServerProcess {
 public:
  // Starts the program with these arguments and, unless they say where to listen, on free ports of
  // 127.0.0.1.
  explicit ServerProcess(std::vector<std::string> arguments,
                         const std::string& program = BEAMWRIGHT_SERVER);
  // Kills it if it still runs.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Waits until it serves or has ended; its port, or 0 if it ended.
  int WaitForPort();
  std::string address() { return "127.0.0.1:" + std::to_string(WaitForPort()); }
  // The ports of the HTTP API, and of probes and metrics; the latter's is there before the server
  // is ready.
  int http_port();
  int metrics_port();
  int admin_port();
  // Only with --websocket-address among the arguments.
  int websocket_port();

  // Waits until a line of the log has `begin`, or the server has ended; the rest of that line.
  std::string WaitForLine(const std::string& begin);
  // From now on its stderr is not read, until it ends.
  void StopReading();

  void Signal(int number) const;
  // Waits for the end; the exit code, or minus the signal that ended it.
  int Wait();
  // All that it has written to stderr; whole after Wait.
  std::string log();

 private:
  void ReadLog(int fd);
  // From the ports file, which is there when the server is ready; 0 if it does not listen there.
  int ReadPort(const std::string& listener) const;

  absl::Mutex mutex_;
  std::string log_;
  bool ended_ = false;  // the log is at its end
  bool reading_ = true;
  std::string folder_;  // for the ports file
  pid_t pid_ = -1;
  std::thread reader_;
};

}  // namespace beamwright::e2e

#endif  // BEAMWRIGHT_TESTS_E2E_SERVER_PROCESS_H_
