// Requests and replies as bytes. Services take raw bytes and parse them here, for gRPC's own answer
// to a request that can't be parsed is UNIMPLEMENTED without a message.
#ifndef BEAMWRIGHT_SERVER_RPC_RAW_MESSAGE_H_
#define BEAMWRIGHT_SERVER_RPC_RAW_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace beamwright::rpc {

// InvalidArgument naming the message type, of bytes that are no such message or hold text that is
// not UTF-8, or naming a field that is beyond its bound (engine/bundle/bounds.h). Clears `bytes`,
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

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_RAW_MESSAGE_H_
