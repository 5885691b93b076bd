#include "server/rpc/rpc_status.h"

#include "absl/strings/str_cat.h"
#include "server/serving/wire_status.h"

namespace beamwright::rpc {
grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  // absl::StatusCode numbers the codes as gRPC does.
  return grpc::Status(static_cast<grpc::StatusCode>(serving::WireCode(status.code())),
                      serving::WireMessage(status),
                      serving::ToRpcStatus(status).SerializeAsString());
}

grpc::Status EndOfCall(const absl::Status& status, grpc::CallbackServerContext& context) {
  if (absl::IsResourceExhausted(status)) {
    // What never fits is not to be tried again: -1 (gRFC A6).
    const absl::Duration wait = serving::RetryAfter(status);
    context.AddTrailingMetadata(
        "grpc-retry-pushback-ms",
        wait == absl::InfiniteDuration() ? "-1" : absl::StrCat(absl::ToInt64Milliseconds(wait)));
  }
  return ToGrpcStatus(status);
}

}  // namespace beamwright::rpc
