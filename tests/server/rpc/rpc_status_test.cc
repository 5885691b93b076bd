#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "beamwright/v1/decode.pb.h"
#include "server/rpc/raw_message.h"

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

}  // namespace
}  // namespace beamwright::rpc
