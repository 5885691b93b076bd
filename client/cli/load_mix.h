// --mix: calls of different kinds, a JSON object a line (MixLine in client/cli/output.proto). A
// bundle's golden.jsonl is such a file.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_MIX_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_MIX_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/load.h"

namespace beamwright::client {

// InvalidArgument names the file, the line and what is wrong with it.
absl::StatusOr<std::vector<MixedCall>> ReadMix(const std::string& path);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_MIX_H_
