#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "google/protobuf/struct.pb.h"
#include "server/serving/logging.h"

namespace beamwright::serving {
namespace {

class AccessLogTest : public ::testing::Test {
 protected:
  void Call(AccessLog& log, const absl::Status& status = absl::OkStatus(),
            const CallContext& context = {}, int num_failed = 0) {
    const absl::Time start = absl::UnixEpoch();
    log.OnCall({"grpc",
                "Decode",
                context,
                "word",
                "3",
                status,
                start,
                start + absl::Milliseconds(2),
                1,
                nullptr,
                {},
                0.25,
                1.5,
                num_failed});
  }
  std::function<void(const LogFields&)> Keep() {
    return [this](const LogFields& fields) { lines_.push_back(FieldsAsText(fields)); };
  }

  std::vector<std::string> lines_;
};

TEST_F(AccessLogTest, ALineSaysHowACallWent) {
  AccessLog log(1, Keep());
  Call(log, absl::OkStatus(), {"r-1", "00-ab-cd-01"});
  Call(log, absl::UnavailableError("secret of the model"));
  Call(log, absl::OkStatus(), {}, 7);
  ASSERT_EQ(lines_.size(), 3u);
  EXPECT_THAT(lines_[2], ::testing::EndsWith(" compute_ms=1.500 failed_sources=7"));
  EXPECT_EQ(lines_[0],
            "protocol=grpc method=Decode model=word version=3 code=OK sources=1 ms=2.000 "
            "queue_ms=0.250 compute_ms=1.500 request_id=r-1 traceparent=00-ab-cd-01");
  EXPECT_EQ(lines_[1],
            "protocol=grpc method=Decode model=word version=3 code=UNAVAILABLE sources=1 ms=2.000 "
            "queue_ms=0.250 compute_ms=1.500");
}

TEST_F(AccessLogTest, OneOfSoMany) {
  AccessLog log(10, Keep());
  for (int i = 0; i < 25; ++i) {
    Call(log);
  }
  EXPECT_EQ(lines_.size(), 3u);
  // A failure among them is not lost.
  Call(log, absl::InternalError("x"));
  ASSERT_EQ(lines_.size(), 4u);
  EXPECT_THAT(lines_[3], ::testing::HasSubstr("code=INTERNAL"));
}

TEST(LogFieldsTest, WhatClientsSayBreaksNoLine) {
  const LogFields fields = {{"a", "plain"},     {"b", "two words"}, {"c", "q\"\\\n"},
                            {"n", "1.5", true}, {"d", "\xFF"},      {"e", std::string(1000, 'x')}};
  const std::string text = FieldsAsText(fields);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_THAT(text, ::testing::StartsWith(
                        R"(a=plain b="two words" c="q\"\\\u000a" n=1.5 d="\u00ff" e=xxx)"));
  EXPECT_LT(text.size(), 400u);
  google::protobuf::Struct object;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(
                  absl::StrCat("{", FieldsAsJson(fields), "}"), &object)
                  .ok());
  EXPECT_EQ(object.fields().at("c").string_value(), "q\"\\\n");
  EXPECT_EQ(object.fields().at("n").number_value(), 1.5);
}

}  // namespace
}  // namespace beamwright::serving
