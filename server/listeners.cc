// Starts the listeners of the server: gRPC (ListenForCalls), HTTP and administration (Listen),
// WebSocket (ListenForStreams), probes and metrics (ListenForProbes). An address "none" means no
// listener; an error names the flag.
//
// OtherConflicts: if one port is taken, the other addresses are tried too, so that an operator sees
// all ports that are taken, rather than one per start.
//
// LogWhoMayCall says at the start whether other machines can call, and what to set so that they
// can, or so that they need credentials.
//
// ConnectionBoundsOfFiles and WarnOfFiles: each connection takes a file; HTTP gets a quarter of
// them.
#include "server/listeners.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/base/memory.h"
#include "ops/base/status.h"
#include "server/rpc/listening_sockets.h"
#include "server/serving/process_limits.h"
#include "server/serving/settings.h"

namespace beamwright {
namespace {

// The error why a listener does not start, with the flag of its address.
absl::Status OfFlag(const char* flag, const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat(flag, ": ", why.message()));
}

rpc::ServerOptions RpcOptions(const serving::Flags& flags, const access::Guard& guard) {
  rpc::ServerOptions options;
  options.address = flags.grpc_address;
  options.max_connections = flags.grpc_max_connections;
  options.max_connections_per_client = flags.grpc_max_connections_per_client;
  options.max_receive_bytes = flags.grpc_max_receive_bytes;
  options.max_concurrent_streams = flags.grpc_max_concurrent_streams;
  options.max_metadata_bytes = flags.grpc_max_metadata_bytes;
  if (const int64_t files = serving::RaiseFileLimit(); files > 0) {
    options.max_files = static_cast<int>(files - serving::FilesKeptBack(files));
  }
  options.memory_limit_bytes = ReadCgroupLimits().memory_bytes;
  options.tls = guard.tls();
  options.reflection = flags.reflection.value_or(flags.guard.token_file.empty());
  return options;
}

// Warns at the start if callers may open more connections than the process may open files.
void WarnOfFiles(const serving::Flags& flags, int max_files) {
  const int64_t connections =
      int64_t{flags.grpc_max_connections} +
      (flags.http_address == "none" ? 0 : ConnectionBoundsOfFiles().max_connections) +
      (flags.websocket_address == "none" ? 0 : MaxWebSocketConnections(flags));
  if (connections > max_files) {
    spdlog::warn(
        "callers may open {} connections (grpc-max-connections, websocket-max-connections, a "
        "quarter of the files for HTTP), and the process has {} files for them: when all are in "
        "use, the idlest gRPC connection is closed for each new one; raise ulimit -n (LimitNOFILE) "
        "or lower these settings",
        connections, max_files);
  }
}

}  // namespace

std::vector<std::string> ApiAddresses(const serving::Flags& flags) {
  return {flags.grpc_address, flags.http_address, flags.websocket_address};
}

std::vector<absl::Status> OtherConflicts(const serving::Flags& flags, const absl::Status& error) {
  const std::pair<const char*, const std::string&> addresses[] = {
      {"grpc-address", flags.grpc_address},
      {"http-address", flags.http_address},
      {"websocket-address", flags.websocket_address},
      {"metrics-address", flags.metrics_address},
      {"admin-address", flags.admin_address}};
  bool is_conflict = false;
  std::vector<absl::Status> others;
  std::vector<rpc::ListeningSockets> bound;  // kept, for two settings may name one port
  for (const auto& [flag, address] : addresses) {
    if (absl::StartsWith(error.message(), absl::StrCat(flag, ": "))) {
      is_conflict = absl::IsUnavailable(error);
      continue;
    }
    absl::StatusOr<rpc::ListeningSockets> sockets = rpc::ListeningSockets();
    if (address != "none") {
      sockets = rpc::ListeningSockets::Open(address);
    }
    if (sockets.ok()) {
      bound.push_back(*std::move(sockets));
    } else {
      others.push_back(OfFlag(flag, sockets.status()));
    }
  }
  return is_conflict ? others : std::vector<absl::Status>();
}

void LogWhoMayCall(const serving::Flags& flags) {
  const std::pair<const char*, const std::string&> addresses[] = {
      {"--grpc-address", flags.grpc_address},
      {"--http-address", flags.http_address},
      {"--websocket-address", flags.websocket_address}};
  std::string opening;
  std::string open;
  for (const auto& [flag, address] : addresses) {
    if (!access::IsLocal(address)) {
      absl::StrAppend(&open, open.empty() ? "" : ", ", address);
    } else if (serving::ParseHostPort(address).ok()) {
      absl::StrAppend(&opening, " ", flag, " ", serving::WithHost("0.0.0.0", address));
    }
  }
  if (open.empty() && !opening.empty()) {
    spdlog::info("only this machine can call; to admit others:{} (docs/security.md)", opening);
  } else if (!open.empty() && flags.guard.tls.cert.empty() && flags.guard.token_file.empty()) {
    spdlog::warn("other machines can call {} without TLS and without tokens (docs/security.md)",
                 open);
  }
}

absl::StatusOr<http::Cors> CorsOf(const serving::Flags& flags) {
  absl::StatusOr<http::Cors> cors = http::Cors::Make(flags.http_cors_origins);
  return cors.ok() ? std::move(cors) : OfFlag("http-cors-origins", cors.status());
}

http::ConnectionBounds ConnectionBoundsOfFiles() {
  constexpr int64_t kFewest = 16;
  constexpr int64_t kMost = 4096;
  rlimit files{};
  const bool is_known = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
  const int64_t quarter =
      is_known ? static_cast<int64_t>(std::min<rlim_t>(files.rlim_cur / 4, kMost)) : kMost;
  http::ConnectionBounds bounds;
  bounds.max_connections = static_cast<int>(std::max(quarter, kFewest));
  bounds.max_young = std::max(bounds.max_connections / 8, 1);
  return bounds;
}

int MaxWebSocketConnections(const serving::Flags& flags) {
  return std::min(flags.websocket_max_connections, ConnectionBoundsOfFiles().max_connections);
}

absl::StatusOr<std::unique_ptr<http::Listener>> Listen(const char* flag, const char* what,
                                                       const http::ListenerOptions& options,
                                                       http::Handler handler) {
  if (options.address == "none") {
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<http::Listener>> listener =
      http::Listener::Start(options, std::move(handler));
  if (!listener.ok()) {
    return OfFlag(flag, listener.status());
  }
  spdlog::info("{} on {}", what, (*listener)->address());
  return listener;
}

absl::StatusOr<std::unique_ptr<http::ProbeListener>> ListenForProbes(const serving::Flags& flags,
                                                                     const http::Probes& probes) {
  if (flags.metrics_address == "none") {
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<http::ProbeListener>> listener =
      http::ProbeListener::Start(flags.metrics_address, probes);
  if (!listener.ok()) {
    return OfFlag("metrics-address", listener.status());
  }
  spdlog::info("probes and metrics on {}", (*listener)->address());
  return listener;
}

absl::Status WritePorts(const std::string& path, const std::map<std::string, int>& ports) {
  if (path.empty()) {
    return absl::OkStatus();
  }
  const std::string draft = path + ".new";
  std::ofstream out(draft, std::ios::trunc);
  for (const auto& [listener, port] : ports) {
    out << listener << " " << port << "\n";
  }
  out.close();
  if (!out.good() || std::rename(draft.c_str(), path.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write the ports file '", path, "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<rpc::Server>> ListenForCalls(const serving::Flags& flags,
                                                            const access::Guard& guard,
                                                            oip::Service& inference) {
  const rpc::ServerOptions options = RpcOptions(flags, guard);
  WarnOfFiles(flags, options.max_files);
  absl::StatusOr<std::unique_ptr<rpc::Server>> server =
      rpc::Server::Start(options, guard.api(), inference);
  if (!server.ok()) {
    return OfFlag("grpc-address", server.status());
  }
  spdlog::info("gRPC on {}", (*server)->address());
  return server;
}

absl::StatusOr<std::unique_ptr<websocket::Listener>> ListenForStreams(const serving::Flags& flags,
                                                                      serving::Core& core,
                                                                      const access::Guard& guard,
                                                                      const http::Cors& cors) {
  if (flags.websocket_address == "none") {
    return nullptr;
  }
  websocket::ListenerOptions options;
  options.address = flags.websocket_address;
  options.max_connections = MaxWebSocketConnections(flags);
  options.default_model = flags.websocket_model;
  options.tls = guard.tls();
  absl::StatusOr<std::unique_ptr<websocket::Listener>> listener =
      websocket::Listener::Start(options, core, guard.api(), cors);
  if (!listener.ok()) {
    return OfFlag("websocket-address", listener.status());
  }
  spdlog::info("WebSocket on {}", (*listener)->address());
  return listener;
}

}  // namespace beamwright
