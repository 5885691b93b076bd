// Requests, replies and statuses as gRPC takes them: as bytes, which may be packed.
#ifndef BEAMWRIGHT_SERVER_RPC_RAW_MESSAGE_H_
#define BEAMWRIGHT_SERVER_RPC_RAW_MESSAGE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "google/rpc/status.pb.h"

namespace beamwright::rpc {

// Requests and replies as bytes. Services take raw bytes and parse them here, for gRPC's own answer
// to a request that can't be parsed is UNIMPLEMENTED without a message.

// InvalidArgument naming the message type, of bytes that are no such message or hold text that is
// not UTF-8, or naming a field that is beyond its bound (engine/bundle/rules.h). Clears `bytes`,
// which would otherwise be held until the call has ended. Bytes in gzip are unpacked;
// ResourceExhausted for more than `max_bytes` of them.
absl::Status ParseRequest(grpc::ByteBuffer& bytes, int64_t max_bytes,
                          google::protobuf::Message& request);
template <typename Request>
absl::StatusOr<Request> ParseRequest(grpc::ByteBuffer& bytes, int64_t max_bytes) {
  Request request;
  if (absl::Status status = ParseRequest(bytes, max_bytes, request); !status.ok()) {
    return status;
  }
  return request;
}

// ResourceExhausted if the reply is larger than a message can be.
absl::Status SerializeReply(const google::protobuf::Message& reply, grpc::ByteBuffer& bytes);

// UnpackGzip: requests that a client has packed (grpc-encoding: gzip). gRPC would unpack them whole
// before it looks at their size.

// Replaces bytes in gzip by what they hold; others stay. No protobuf message begins as gzip does
// (0x1f has a wire type that there is not). ResourceExhausted for more than `max_bytes`,
// InvalidArgument for malformed gzip.
absl::Status UnpackGzip(grpc::ByteBuffer& bytes, int64_t max_bytes);

// Statuses as gRPC takes them.

// Code, message and details (grpc-status-details-bin) of a call, as status/wire_status.h has them.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The same for a call that ends: a refusal for want of room also gives retrying clients the time
// to wait (trailer grpc-retry-pushback-ms).
grpc::Status EndOfCall(const absl::Status& status, grpc::CallbackServerContext& context);
// Where the status has been made ready to be sent already; `status` is not OK.
grpc::Status EndOfCall(const absl::Status& status, const google::rpc::Status& wire,
                       grpc::CallbackServerContext& context);

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_RAW_MESSAGE_H_
