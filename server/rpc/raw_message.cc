#include "server/rpc/raw_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/status/error_details.h"
#include "ops/base/status.h"

namespace beamwright::rpc {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// A field of a message takes two bytes on the wire and up to some hundred in memory. Requests have
// a few thousand; smaller ones can't have too many.
constexpr int64_t kMaxFields = 1 << 18;
constexpr size_t kSmall = 1 << 18;
constexpr int kMaxDepth = 32;

// Counts fields down, those of messages within as well; false if there are more than `left`. What
// is malformed is left to the parser.
bool HasAtMost(CodedInputStream& bytes, const google::protobuf::Descriptor& type, int depth,
               int64_t& left) {
  while (const uint32_t tag = bytes.ReadTag()) {
    if (--left < 0) {
      return false;
    }
    const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    uint32_t size = 0;
    if (field == nullptr || field->type() != FieldDescriptor::TYPE_MESSAGE || depth == kMaxDepth ||
        WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&bytes, tag)) {
        return true;
      }
    } else if (!bytes.ReadVarint32(&size) || size > std::numeric_limits<int32_t>::max()) {
      return true;
    } else {
      const CodedInputStream::Limit outer = bytes.PushLimit(static_cast<int>(size));
      if (!HasAtMost(bytes, *field->message_type(), depth + 1, left)) {
        return false;
      }
      bytes.Skip(bytes.BytesUntilLimit());
      bytes.PopLimit(outer);
    }
  }
  return true;
}

absl::Status CheckNumFields(const grpc::ByteBuffer& bytes,
                            const google::protobuf::Descriptor& type) {
  if (bytes.Length() <= kSmall) {
    return absl::OkStatus();
  }
  grpc::ByteBuffer copy(bytes);  // of references, not of the content
  grpc::ProtoBufferReader reader(&copy);
  CodedInputStream coded(&reader);
  int64_t left = kMaxFields;
  if (!reader.status().ok() || HasAtMost(coded, type, 0, left)) {
    return absl::OkStatus();
  }
  return Invalid("the request has more than ", kMaxFields,
                 " fields in its messages; send it as several calls");
}

}  // namespace

absl::Status ParseRequest(grpc::ByteBuffer& bytes, google::protobuf::Message& request) {
  BW_RETURN_IF_ERROR(CheckNumFields(bytes, *request.GetDescriptor()));
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
