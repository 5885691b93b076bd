// Statuses as gRPC takes them, and packed requests.

#include "server/rpc/raw_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "beamwright/v1/decode.pb.h"
#include "engine/status/fault.h"

namespace beamwright::rpc {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMaxBytes = 16 << 20;

TEST(RpcStatusTest, EveryCodeKeepsItsNumberExceptUnknown) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    const int expected = code == grpc::StatusCode::UNKNOWN ? grpc::StatusCode::INTERNAL : code;
    EXPECT_EQ(ToGrpcStatus(status).error_code(), expected);
    EXPECT_EQ(ToGrpcStatus(status).error_message(), "why");
  }
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
}

TEST(RawMessageTest, RoundTrips) {
  v1::DecodeRequest request;
  request.set_model("m");
  request.add_sources()->set_text("t");
  for (const v1::DecodeRequest& message : {request, v1::DecodeRequest()}) {
    grpc::ByteBuffer bytes;
    ASSERT_TRUE(SerializeReply(message, bytes).ok());
    v1::DecodeRequest parsed;
    ASSERT_TRUE(ParseRequest(bytes, kMaxBytes, parsed).ok());
    EXPECT_EQ(parsed.SerializeAsString(), message.SerializeAsString());
  }
}

TEST(RawMessageTest, MoreFieldsThanAnybodyNeedsAreRefusedBeforeTheyTakeMemory) {
  std::string text;
  for (int i = 0; i < 300'000; ++i) {
    text.append("\x1A\0", 2);  // an empty source
  }
  // Within a message as well.
  const std::string within = std::string("\x1A\xC0\xCF\x24", 4) + text;
  for (const auto& [content, words] :
       {std::pair(text, "sources: more than 4096 elements; at most 4096 are allowed"),
        std::pair(within, "more than 131072 fields")}) {
    const grpc::Slice slice(content);
    grpc::ByteBuffer bytes(&slice, 1);
    v1::DecodeRequest parsed;
    const absl::Status status = ParseRequest(bytes, kMaxBytes, parsed);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }
  v1::DecodeRequest large;
  large.add_sources()->mutable_ids()->mutable_ids()->Resize(1 << 20, 5);
  grpc::ByteBuffer bytes;
  ASSERT_TRUE(SerializeReply(large, bytes).ok());
  v1::DecodeRequest parsed;
  EXPECT_TRUE(ParseRequest(bytes, kMaxBytes, parsed).ok());
}

TEST(RawMessageTest, BytesThatAreNoMessageAreRefusedByName) {
  const grpc::Slice slice(std::string{0x1A, 0x7F, 'x'});  // says 127 bytes, has one
  v1::DecodeRequest parsed;
  grpc::ByteBuffer bytes(&slice, 1);
  const absl::Status status = ParseRequest(bytes, kMaxBytes, parsed);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("beamwright.v1.DecodeRequest"));
}

using ::testing::HasSubstr;

std::string Gzip(const std::string& content) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, content.size()) + 64, '\0');
  std::string input = content;
  stream.next_in = reinterpret_cast<unsigned char*>(input.data());
  stream.avail_in = static_cast<unsigned int>(input.size());
  stream.next_out = reinterpret_cast<unsigned char*>(packed.data());
  stream.avail_out = static_cast<unsigned int>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// In slices of `part` bytes.
grpc::ByteBuffer Buffer(const std::string& content, size_t part) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < content.size(); at += part) {
    slices.emplace_back(content.substr(at, part));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Content(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(bytes.Dump(&slices).ok());
  std::string content;
  for (const grpc::Slice& slice : slices) {
    content.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return content;
}

TEST(UnpackGzipTest, GzipIsUnpackedHoweverItIsCut) {
  std::string content;
  for (int i = 0; i < 200'000; ++i) {
    content += static_cast<char>(i * i % 251);
  }
  for (const std::string& wanted : {content, std::string("x"), std::string()}) {
    const std::string packed = Gzip(wanted);
    for (const size_t part : {size_t{1}, size_t{7}, packed.size()}) {
      grpc::ByteBuffer bytes = Buffer(packed, part);
      ASSERT_TRUE(UnpackGzip(bytes, 200'000).ok());
      EXPECT_EQ(Content(bytes), wanted);
    }
  }
}

TEST(UnpackGzipTest, OtherBytesStay) {
  for (const std::string& content :
       {std::string(), std::string("\x1f"), std::string("\x1f\x8b"), std::string("\x1a\x00", 2)}) {
    grpc::ByteBuffer bytes = Buffer(content, 1);
    ASSERT_TRUE(UnpackGzip(bytes, 1).ok());
    EXPECT_EQ(Content(bytes), content);
  }
}

TEST(UnpackGzipTest, ALargeContentIsRefusedBeforeItIsUnpacked) {
  const std::string packed = Gzip(std::string(32 << 20, '\0'));
  EXPECT_LT(packed.size(), 100'000u);
  grpc::ByteBuffer bytes = Buffer(packed, 8192);
  const absl::Status status = UnpackGzip(bytes, 1 << 20);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 1048576 bytes"));
}

TEST(UnpackGzipTest, MalformedGzipIsInvalid) {
  const std::string packed = Gzip("some content that is packed");
  std::string spoiled = packed;
  spoiled[packed.size() - 6] ^= 1;  // its checksum
  for (const std::string& content :
       {packed.substr(0, packed.size() - 1), packed + "x", spoiled, std::string("\x1f\x8b\x08")}) {
    grpc::ByteBuffer bytes = Buffer(content, content.size());
    EXPECT_EQ(UnpackGzip(bytes, 1 << 20).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(UnpackGzipTest, ARequestIsReadPackedOrNot) {
  v1::DecodeRequest request;
  request.add_sources()->set_text(std::string(10'000, 'a'));
  for (const std::string& content :
       {request.SerializeAsString(), Gzip(request.SerializeAsString())}) {
    grpc::ByteBuffer bytes = Buffer(content, 100);
    v1::DecodeRequest parsed;
    ASSERT_TRUE(ParseRequest(bytes, 1 << 20, parsed).ok());
    EXPECT_EQ(parsed.SerializeAsString(), request.SerializeAsString());
  }
}

}  // namespace

}  // namespace beamwright::rpc
