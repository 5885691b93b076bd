#include "server/rpc/raw_message.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "server/model/error_details.h"

namespace beamwright::rpc {

absl::Status ParseRequest(const grpc::ByteBuffer& bytes, google::protobuf::Message& request) {
  if (!bytes.Valid()) {
    return absl::CancelledError("the call ended before its request had come");
  }
  grpc::ByteBuffer copy(bytes);  // of references, not of the content
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok() || !request.ParseFromZeroCopyStream(&reader)) {
    return Invalid("the request is no valid ", request.GetTypeName(),
                   ": its bytes are malformed, or a string in it is not UTF-8");
  }
  return absl::OkStatus();
}

absl::Status SerializeReply(const google::protobuf::Message& reply, grpc::ByteBuffer& bytes) {
  const size_t size = reply.ByteSizeLong();
  if (size > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return model::WithReason(
        absl::ResourceExhaustedError(
            absl::StrCat("the reply has ", size,
                         " bytes, more than a message can hold; send fewer sources a call")),
        model::reason::kReplyTooLarge);
  }
  bytes.Clear();
  grpc::ProtoBufferWriter writer(&bytes, grpc::kProtoBufferWriterMaxBufferLength,
                                 static_cast<int>(size));
  return reply.SerializeToZeroCopyStream(&writer)
             ? absl::OkStatus()
             : absl::InternalError("the reply cannot be serialised");
}

}  // namespace beamwright::rpc
