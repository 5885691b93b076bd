#include "server/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace beamwright::rpc {
namespace {

// Clients may ping a quiet connection this often; gRPC's own limit (5 minutes) would cut them off.
constexpr int kMinPingIntervalMs = 20'000;
// For calls that arrive while the listener closes to get their Unavailable.
constexpr std::chrono::milliseconds kLastReplies(500);

std::string WithPort(const std::string& address, int port) {
  return absl::StartsWith(address, "unix:")
             ? address
             : absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

}  // namespace

Server::Server(const ModelRegistry& models, engine::Engine& engine)
    : engine_(engine), decode_(models, engine, replies_), models_(models) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const std::string& address,
                                                      const ModelRegistry& models,
                                                      engine::Engine& engine) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  std::unique_ptr<Server> server(new Server(models, engine));
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &server->port_);
  builder.RegisterService(&server->decode_);
  builder.RegisterService(&server->models_);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || server->port_ <= 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on '", address,
                     "': the address is not this machine's, the port is taken or reserved, or it "
                     "is no host:port"));
  }
  const bool has_port = !absl::StartsWith(address, "unix:");
  server->port_ = has_port ? server->port_ : 0;
  server->address_ = has_port ? WithPort(address, server->port_) : address;
  grpc::HealthCheckServiceInterface* health = server->server_->GetHealthCheckService();
  for (const char* service :
       {v1::DecodeService::service_full_name(), v1::ModelService::service_full_name()}) {
    health->SetServingStatus(service, true);
  }
  return server;
}

Server::~Server() {
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }
}

void Server::Drain(absl::Duration timeout) {
  const absl::Time end = absl::Now() + timeout;
  server_->GetHealthCheckService()->Shutdown();
  decode_.Refuse();
  // The engine's Drain has no time limit: what outlasts the timeout is cancelled below, and then it
  // ends.
  std::thread draining([this] { engine_.Drain(); });
  if (!decode_.WaitUntilAnswered(end - absl::Now())) {
    const engine::Engine::Load load = engine_.load();
    spdlog::warn("{} requests run and {} wait after {}; they are cancelled", load.running,
                 load.waiting, absl::FormatDuration(timeout));
  }
  server_->Shutdown(std::chrono::system_clock::now() + kLastReplies);
  server_->Wait();
  draining.join();
}

}  // namespace beamwright::rpc
