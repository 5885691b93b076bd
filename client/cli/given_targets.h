// Where `score` and `align` take sources with their targets from: arguments, a file, or standard
// input, whose lines are a source and its targets with tabs between.
#ifndef BEAMWRIGHT_CLIENT_CLI_GIVEN_TARGETS_H_
#define BEAMWRIGHT_CLIENT_CLI_GIVEN_TARGETS_H_

#include <cstdint>
#include <fstream>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"

namespace beamwright::client {

struct GivenFlags {
  std::vector<std::string> words;  // the source, then targets
  std::string file;
  bool ids = false;
  std::string model;
  std::string version;
};

// SOURCE TARGET..., --file, --ids, --model and --version. `flags` must outlive the parsing.
void AddGivenFlags(CLI::App& app, GivenFlags& flags);

// Reads sources with their targets. For one thread.
class GivenReader {
 public:
  // InvalidArgument: arguments and a file, or a file that cannot be read.
  static absl::StatusOr<std::unique_ptr<GivenReader>> Open(const GivenFlags& flags);

  // False at the end. InvalidArgument names the line that has no target, or what is not an id.
  absl::StatusOr<bool> Next(v1::ScoreSource& given);

 private:
  explicit GivenReader(const GivenFlags& flags) : flags_(flags) {}

  const GivenFlags& flags_;
  std::ifstream file_;
  std::istream* stream_ = nullptr;  // null: words
  int64_t num_read_ = 0;
};

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_GIVEN_TARGETS_H_
