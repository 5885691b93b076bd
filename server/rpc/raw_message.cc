// Between gRPC's bytes and messages.
//
// 1. ParseRequest: UnpackGzip unpacks a body that clients packed themselves, up to max_bytes;
//    CheckBounds walks over the bytes and refuses lists and strings that are too long before a
//    message is made of them; then protobuf parses.
// 2. SerializeReply refuses replies above 2 GB, which protobuf cannot write.
// 3. ToGrpcStatus, EndOfCall: an error as a grpc::Status with its details, and for those that are
//    worth a retry the pause that gRPC's clients obey.
#include "server/rpc/raw_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "ops/base/status.h"

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

namespace {

constexpr size_t kBlock = 64 << 10;

bool IsGzip(const std::vector<grpc::Slice>& slices) {
  constexpr unsigned char kMagic[] = {0x1f, 0x8b, 0x08};
  size_t matched = 0;
  for (const grpc::Slice& slice : slices) {
    for (size_t i = 0; i < slice.size() && matched < sizeof(kMagic); ++i) {
      if (slice.begin()[i] != kMagic[matched]) {
        return false;
      }
      ++matched;
    }
  }
  return matched == sizeof(kMagic);
}

// Unpacks slices one after the other into blocks.
class Inflater {
 public:
  explicit Inflater(int64_t max_bytes) : max_bytes_(max_bytes), block_(kBlock, '\0') {}

  absl::Status Run(const std::vector<grpc::Slice>& slices) {
    constexpr int kGzipAlone = 16;
    if (inflateInit2(&stream_, kGzipAlone + MAX_WBITS) != Z_OK) {
      return status::OutOfMemory();
    }
    const auto end = absl::MakeCleanup([this] { inflateEnd(&stream_); });
    for (const grpc::Slice& slice : slices) {
      stream_.next_in = const_cast<unsigned char*>(slice.begin());  // zlib only reads it
      stream_.avail_in = static_cast<unsigned int>(slice.size());
      BW_RETURN_IF_ERROR(Take());
    }
    return at_end_ ? absl::OkStatus() : Invalid("the request's gzip data end before their end");
  }

  grpc::ByteBuffer Result() const { return grpc::ByteBuffer(blocks_.data(), blocks_.size()); }

 private:
  // Unpacks all input that there is.
  absl::Status Take() {
    do {
      if (at_end_ && stream_.avail_in > 0) {
        return Invalid("the request has bytes behind its gzip data");
      }
      stream_.next_out = reinterpret_cast<unsigned char*>(block_.data());
      stream_.avail_out = static_cast<unsigned int>(block_.size());
      const int result = at_end_ ? Z_STREAM_END : inflate(&stream_, Z_NO_FLUSH);
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        return Invalid("the request's gzip data are malformed");
      }
      at_end_ = result == Z_STREAM_END;
      const size_t count = block_.size() - stream_.avail_out;
      num_bytes_ += static_cast<int64_t>(count);
      if (num_bytes_ > max_bytes_) {
        return status::WithReason(
            absl::ResourceExhaustedError(absl::StrCat(
                "the request has more than ", max_bytes_,
                " bytes when it is unpacked, the largest that is taken (grpc-max-receive-bytes)")),
            status::reason::kTooLarge);
      }
      if (count > 0) {
        blocks_.emplace_back(block_.data(), count);
      }
    } while (stream_.avail_in > 0 || stream_.avail_out == 0);
    return absl::OkStatus();
  }

  const int64_t max_bytes_;
  z_stream stream_{};
  std::string block_;
  std::vector<grpc::Slice> blocks_;
  int64_t num_bytes_ = 0;
  bool at_end_ = false;
};

}  // namespace

absl::Status UnpackGzip(grpc::ByteBuffer& bytes, int64_t max_bytes) {
  std::vector<grpc::Slice> slices;  // references, no copies
  if (!bytes.Dump(&slices).ok() || !IsGzip(slices)) {
    return absl::OkStatus();
  }
  Inflater inflater(max_bytes);
  BW_RETURN_IF_ERROR(inflater.Run(slices));
  grpc::ByteBuffer unpacked = inflater.Result();
  bytes.Swap(&unpacked);
  return absl::OkStatus();
}

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
