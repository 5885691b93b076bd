#include "server/rpc/rpc_status.h"

#include "server/serving/wire_status.h"

namespace beamwright::rpc {
namespace {

constexpr char kPushbackMs[] = "100";

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  // absl::StatusCode numbers the codes as gRPC does.
  return grpc::Status(static_cast<grpc::StatusCode>(serving::WireCode(status.code())),
                      serving::WireMessage(status));
}

grpc::Status EndOfCall(const absl::Status& status, grpc::CallbackServerContext& context) {
  if (absl::IsResourceExhausted(status)) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms", kPushbackMs);
  }
  return ToGrpcStatus(status);
}

}  // namespace beamwright::rpc
