// beamwright-server: loads models, serves them over gRPC, and drains on SIGTERM. Exit codes: 0
// after a signal, 1 when it can't serve, 2 for a wrong command line.
#include <grpc/support/log.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "server/engine/engine.h"
#include "server/rpc/flags.h"
#include "server/rpc/model_registry.h"
#include "server/rpc/server.h"
#include "server/rpc/signals.h"

namespace beamwright {
namespace {

void LogFromGrpc(gpr_log_func_args* entry) {
  spdlog::log(
      entry->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::warn : spdlog::level::debug,
      "gRPC: {}", entry->message);
}

void SetUpLogging(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("beamwright"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  spdlog::set_level(spdlog::level::from_str(level));
  spdlog::flush_on(spdlog::level::info);
  gpr_set_log_function(LogFromGrpc);
}

// By rename, so that whoever waits for the file never reads half a number.
absl::Status WritePortFile(const std::string& path, int port) {
  if (path.empty()) {
    return absl::OkStatus();
  }
  const std::string draft = path + ".new";
  std::ofstream out(draft, std::ios::trunc);
  out << port << "\n";
  out.close();
  if (!out.good() || std::rename(draft.c_str(), path.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write the port file '", path, "'"));
  }
  return absl::OkStatus();
}

absl::Status Serve(const rpc::Flags& flags, const rpc::StopSignals& signals) {
  const auto stopped = [&signals] { return signals.stopped(); };
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<rpc::ModelRegistry> models,
                      rpc::ModelRegistry::Load(flags.models, stopped));
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine,
                      engine::Engine::Start(flags.engine));
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<rpc::Server> server,
                      rpc::Server::Start(flags.grpc_address, *models, *engine));
  BW_RETURN_IF_ERROR(WritePortFile(flags.port_file, server->port()));
  spdlog::info("ready on {}", server->address());
  signals.Wait();
  spdlog::info("draining: no new requests; a second signal stops at once");
  server->Drain(flags.drain_timeout);
  spdlog::info("stopped");
  return absl::OkStatus();
}

// A waiting OpenMP team spins by default, on cores that gRPC's threads and everybody else need; on
// a busy machine that costs several times the throughput. The runtime reads its policy when it is
// loaded, before main, so the program starts itself once more with the policy set. Whoever sets it
// has the last word.
void LetIdleThreadsSleep(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr && std::getenv("GOMP_SPINCOUNT") == nullptr) {
    setenv("OMP_WAIT_POLICY", "passive", 1);
    execv("/proc/self/exe", argv);
    // Where that is not possible the program goes on, correct and slower.
  }
}

int Main(int argc, char** argv) {
  const rpc::ParsedFlags parsed = rpc::ParseFlags(argc, argv);
  if (parsed.exit_code.has_value()) {
    return *parsed.exit_code;
  }
  SetUpLogging(parsed.flags.log_level);
  rpc::StopSignals& signals = rpc::StopSignals::Install();
  const absl::Status status = Serve(parsed.flags, signals);
  if (!status.ok() && !(absl::IsCancelled(status) && signals.stopped())) {
    spdlog::error("{}", std::string(status.message()));
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace beamwright

int main(int argc, char** argv) {
  beamwright::LetIdleThreadsSleep(argv);
  return beamwright::Main(argc, argv);
}
