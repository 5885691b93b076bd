#include "server/rpc/raw_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/bundle/bounds.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "server/rpc/unpack.h"

namespace beamwright::rpc {
namespace {

// Before a message is made of them, which takes many times their size and their time.
absl::Status CheckBounds(const grpc::ByteBuffer& bytes, const google::protobuf::Descriptor& type) {
  grpc::ByteBuffer copy(bytes);  // of references, not of the content
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok()) {
    return absl::OkStatus();  // the parser says so
  }
  google::protobuf::io::CodedInputStream coded(&reader);
  return bundle::CheckBounds(type, coded);
}

}  // namespace

absl::Status ParseRequest(grpc::ByteBuffer& bytes, int64_t max_bytes,
                          google::protobuf::Message& request) {
  BW_RETURN_IF_ERROR(UnpackGzip(bytes, max_bytes));
  BW_RETURN_IF_ERROR(CheckBounds(bytes, *request.GetDescriptor()));
  grpc::ByteBuffer taken;
  taken.Swap(&bytes);
  grpc::ProtoBufferReader reader(&taken);
  if (!reader.status().ok() || !request.ParseFromZeroCopyStream(&reader)) {
    return Invalid("the request is not a valid ", request.GetTypeName(),
                   ": its bytes are malformed, or a string in it is not UTF-8");
  }
  return absl::OkStatus();
}

absl::Status SerializeReply(const google::protobuf::Message& reply, grpc::ByteBuffer& bytes) {
  const size_t size = reply.ByteSizeLong();
  if (size > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return status::WithReason(
        absl::ResourceExhaustedError(
            absl::StrCat("the reply has ", size,
                         " bytes, more than a message can hold; send fewer sources a call")),
        status::reason::kReplyTooLarge);
  }
  bytes.Clear();
  grpc::ProtoBufferWriter writer(&bytes, grpc::kProtoBufferWriterMaxBufferLength,
                                 static_cast<int>(size));
  return reply.SerializeToZeroCopyStream(&writer)
             ? absl::OkStatus()
             : absl::InternalError("the reply cannot be serialised");
}

}  // namespace beamwright::rpc
