// --mix: calls of different kinds, a JSON object a line (MixLine in client/cli/output.proto). A
// bundle's golden.jsonl is such a file.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_MIX_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_MIX_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/load.h"

namespace beamwright::client {

struct Mix {
  std::vector<MixedCall> calls;
  // Each line says when its call is due: the file is a trace.
  bool timed = false;
  // Some line is, or is not, a request of the Open Inference Protocol.
  bool has_infer = false, has_sources = false;
};

// InvalidArgument names the file, the line and what is wrong with it. Calls of a trace come back in
// the order in which they are due.
absl::StatusOr<Mix> ReadMix(const std::string& path);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_MIX_H_
