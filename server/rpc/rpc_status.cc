#include "server/rpc/rpc_status.h"

#include "absl/strings/str_cat.h"
#include "engine/status/wire_status.h"

namespace beamwright::rpc {
namespace {

// absl::StatusCode numbers the codes as gRPC does.
grpc::Status FromWire(const google::rpc::Status& wire) {
  return grpc::Status(static_cast<grpc::StatusCode>(wire.code()), wire.message(),
                      wire.SerializeAsString());
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  return status.ok() ? grpc::Status::OK : FromWire(status::ToRpcStatus(status));
}

grpc::Status EndOfCall(const absl::Status& status, grpc::CallbackServerContext& context) {
  return status.ok() ? grpc::Status::OK : EndOfCall(status, status::ToRpcStatus(status), context);
}

grpc::Status EndOfCall(const absl::Status& status, const google::rpc::Status& wire,
                       grpc::CallbackServerContext& context) {
  if (absl::IsResourceExhausted(status)) {
    // What never fits is not to be tried again: -1 (gRFC A6).
    const absl::Duration wait = status::RetryAfter(status);
    context.AddTrailingMetadata(
        "grpc-retry-pushback-ms",
        wait == absl::InfiniteDuration() ? "-1" : absl::StrCat(absl::ToInt64Milliseconds(wait)));
  }
  return FromWire(wire);
}

}  // namespace beamwright::rpc
