// The command line of beamwright-server. Every flag has an environment variable: --max-rows is
// BEAMWRIGHT_MAX_ROWS; the command line goes first.
#ifndef BEAMWRIGHT_SERVER_RPC_FLAGS_H_
#define BEAMWRIGHT_SERVER_RPC_FLAGS_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/engine/engine.h"
#include "server/rpc/model_registry.h"

namespace beamwright::rpc {

struct Flags {
  ModelPaths models;  // at least one path
  std::string grpc_address = "0.0.0.0:8001";
  engine::EngineOptions engine;
  absl::Duration drain_timeout = absl::Seconds(30);
  std::string log_level = "info";
  std::string port_file;  // empty: none
};

struct ParsedFlags {
  Flags flags;
  // Set if the program is to end at once: 0 after --help or --version, 2 after a wrong command
  // line; what there is to say has been printed.
  std::optional<int> exit_code;
};

ParsedFlags ParseFlags(int argc, const char* const* argv);

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_FLAGS_H_
