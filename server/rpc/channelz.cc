#include "server/rpc/channelz.h"

#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/serving/host_port.h"

namespace beamwright::rpc {

absl::StatusOr<std::unique_ptr<grpc::Server>> StartChannelz(const std::string& address) {
  grpc::channelz::experimental::InitChannelzService();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port <= 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on '", address, "' for channelz"));
  }
  spdlog::info("channelz on {}",
               absl::StartsWith(address, "unix") ? address : serving::WithPort(address, port));
  return server;
}

}  // namespace beamwright::rpc
