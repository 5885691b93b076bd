#include "server/serving/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace beamwright::serving {
namespace {

// W3C Trace Context's own example.
constexpr char kHeader[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(ParseTraceParentTest, ReadsWhatTheStandardWrites) {
  const auto parent = ParseTraceParent(kHeader);
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(absl::BytesToHexString(parent->trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(absl::BytesToHexString(parent->span_id), "00f067aa0ba902b7");
  EXPECT_TRUE(parent->sampled);
  const std::string header = kHeader;
  EXPECT_FALSE(ParseTraceParent(header.substr(0, 53) + "00")->sampled);
  EXPECT_TRUE(ParseTraceParent(header.substr(0, 53) + "ff")->sampled);
  // A later version may say more.
  EXPECT_TRUE(ParseTraceParent("cc" + header.substr(2) + "-more").has_value());
}

TEST(ParseTraceParentTest, RefusesWhatIsNone) {
  const std::string header = kHeader;
  for (const std::string& wrong :
       {std::string(), header.substr(1), header + "-more", header + "1", "ff" + header.substr(2),
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01" + std::string(),
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01" + std::string(),
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01" + std::string(),
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01" + std::string(),
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" + std::string()}) {
    EXPECT_FALSE(ParseTraceParent(wrong).has_value()) << wrong;
  }
}

class TracerTest : public ::testing::Test {
 protected:
  // The spans of a call with two sources, the second of which failed.
  std::vector<Span> Trace(double rate, const std::string& traceparent,
                          const absl::Status& status = absl::OkStatus()) {
    std::vector<Span> spans;
    Tracer tracer(rate, [&spans](std::vector<Span> taken) { spans = std::move(taken); });
    v1::DecodeResponse response;
    v1::Decoded& decoded = *response.add_results()->mutable_decoded();
    decoded.set_queue_ms(2);
    decoded.set_compute_ms(5);
    decoded.add_hypotheses()->add_tokens(7);
    response.add_results()->mutable_error()->set_code(3);
    const CallContext context = {"request 1", traceparent};
    tracer.OnCall({"grpc", "Decode", context, "word", "3", status, start_,
                   start_ + absl::Milliseconds(9), 2, &response});
    return spans;
  }
  static std::string Attribute(const Span& span, const std::string& key) {
    for (const auto& attribute : span.attributes()) {
      if (attribute.key() == key) {
        return attribute.value().has_int_value() ? std::to_string(attribute.value().int_value())
                                                 : attribute.value().string_value();
      }
    }
    return "none";
  }

  const absl::Time start_ = absl::FromUnixMillis(1'700'000'000'000);
};

TEST_F(TracerTest, ACallBelongsToItsCallersTrace) {
  const std::vector<Span> spans = Trace(0, kHeader);
  ASSERT_EQ(spans.size(), 3u);  // the call, and queue and decode of the source that went well
  for (const Span& span : spans) {
    EXPECT_EQ(absl::BytesToHexString(span.trace_id()), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(span.span_id().size(), 8u);
  }
  EXPECT_EQ(absl::BytesToHexString(spans[0].parent_span_id()), "00f067aa0ba902b7");
  EXPECT_EQ(spans[0].name(), "Decode");
  EXPECT_EQ(spans[0].kind(), Span::SPAN_KIND_SERVER);
  EXPECT_EQ(spans[0].end_time_unix_nano() - spans[0].start_time_unix_nano(), 9'000'000u);
  EXPECT_EQ(Attribute(spans[0], "beamwright.model"), "word");
  EXPECT_EQ(Attribute(spans[0], "beamwright.sources"), "2");
  EXPECT_EQ(Attribute(spans[0], "beamwright.request_id"), "request 1");
  EXPECT_EQ(Attribute(spans[0], "rpc.response.status_code"), "OK");
  EXPECT_EQ(spans[1].name(), "queue");
  EXPECT_EQ(spans[2].name(), "decode");
  EXPECT_EQ(spans[1].parent_span_id(), spans[0].span_id());
  EXPECT_EQ(spans[2].parent_span_id(), spans[0].span_id());
  EXPECT_NE(spans[1].span_id(), spans[2].span_id());
  EXPECT_EQ(spans[2].start_time_unix_nano(), spans[1].end_time_unix_nano());
  EXPECT_EQ(spans[2].end_time_unix_nano() - spans[0].start_time_unix_nano(), 7'000'000u);
  EXPECT_EQ(Attribute(spans[2], "beamwright.steps"), "1");
}

TEST_F(TracerTest, WhoIsRecordedIsTheCallersDecisionThenTheRate) {
  const std::string unsampled = std::string(kHeader).substr(0, 53) + "00";
  EXPECT_EQ(Trace(1, unsampled).size(), 0u);
  EXPECT_EQ(Trace(0, "").size(), 0u);
  EXPECT_EQ(Trace(0, "nonsense").size(), 0u);
  const std::vector<Span> own = Trace(1, "nonsense");
  ASSERT_EQ(own.size(), 3u);
  EXPECT_EQ(own[0].parent_span_id(), "");
  EXPECT_EQ(own[0].trace_id().size(), 16u);
  EXPECT_NE(own[0].trace_id(), Trace(1, "")[0].trace_id());
}

TEST_F(TracerTest, AFailureIsTheSpansStatus) {
  const std::vector<Span> spans = Trace(1, "", absl::UnavailableError("going away"));
  EXPECT_EQ(Attribute(spans[0], "rpc.response.status_code"), "UNAVAILABLE");
  EXPECT_EQ(spans[0].status().code(), opentelemetry::proto::trace::v1::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(spans[0].status().message(), "going away");
}

}  // namespace
}  // namespace beamwright::serving
