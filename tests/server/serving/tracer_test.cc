#include "server/serving/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

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
                          const absl::Status& status = absl::OkStatus(),
                          const std::string& request_id = "request 1") {
    std::vector<Span> spans;
    Tracer tracer(rate, [&spans](std::vector<Span> taken) { spans = std::move(taken); });
    v1::DecodeResponse response;
    v1::Decoded& decoded = *response.add_results()->mutable_decoded();
    decoded.set_source_length(4);
    decoded.add_hypotheses()->set_finish_reason(v1::FINISH_REASON_EOS);
    response.add_results()->mutable_error()->set_code(3);
    const CallContext context = {request_id, traceparent};
    std::vector<engine::Timeline> timelines(2);
    timelines[0].accepted = start_;
    timelines[0].started = start_ + absl::Milliseconds(2);
    timelines[0].encoded = start_ + absl::Milliseconds(3);
    timelines[0].searched = start_ + absl::Milliseconds(6);
    timelines[0].written = start_ + absl::Milliseconds(7);
    timelines[0].beam_size = 5;
    timelines[0].num_steps = 9;
    timelines[0].marks = {{start_ + absl::Milliseconds(5), 8}};
    timelines[1].accepted = start_;
    timelines[1].started = start_ + absl::Milliseconds(4);
    tracer.OnCall({"grpc", "Decode", context, "word", "3", status, start_,
                   start_ + absl::Milliseconds(9), 2, &response, timelines});
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
  // The call; of one source all four parts, of the one that failed those that it came to.
  ASSERT_EQ(spans.size(), 7u);
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
  const std::tuple<const char*, int, int> parts[] = {{"queue", 0, 2},  {"encode", 2, 3},
                                                     {"decode", 3, 6}, {"detokenise", 6, 7},
                                                     {"queue", 0, 4},  {"encode", 4, 9}};
  for (size_t i = 0; i < std::size(parts); ++i) {
    const Span& span = spans[i + 1];
    const auto& [name, begin, end] = parts[i];
    EXPECT_EQ(span.name(), name);
    EXPECT_EQ(span.parent_span_id(), spans[0].span_id());
    EXPECT_NE(span.span_id(), spans[i].span_id());
    const uint64_t start = spans[0].start_time_unix_nano();
    EXPECT_EQ(span.start_time_unix_nano() - start, static_cast<uint64_t>(begin) * 1'000'000)
        << name;
    EXPECT_EQ(span.end_time_unix_nano() - start, static_cast<uint64_t>(end) * 1'000'000) << name;
    EXPECT_EQ(Attribute(span, "beamwright.source"), i < 4 ? "0" : "1");
  }
  const Span& decode = spans[3];
  EXPECT_EQ(Attribute(decode, "beamwright.model"), "word");
  EXPECT_EQ(Attribute(decode, "beamwright.beam_size"), "5");
  EXPECT_EQ(Attribute(decode, "beamwright.steps"), "9");
  EXPECT_EQ(Attribute(decode, "beamwright.source_tokens"), "4");
  EXPECT_EQ(Attribute(decode, "beamwright.finish_reason"), "FINISH_REASON_EOS");
  ASSERT_EQ(decode.events_size(), 1);
  EXPECT_EQ(decode.events(0).attributes(0).value().int_value(), 8);
  EXPECT_EQ(decode.events(0).time_unix_nano() - spans[0].start_time_unix_nano(), 5'000'000u);
}

TEST_F(TracerTest, TimelinesAreKeptForThoseWhoMayBeRecorded) {
  const auto wants = [](double rate, const std::string& traceparent) {
    return Tracer(rate, nullptr).WantsTimelines({"", traceparent});
  };
  const std::string unsampled = std::string(kHeader).substr(0, 53) + "00";
  EXPECT_TRUE(wants(0, kHeader));
  EXPECT_FALSE(wants(1, unsampled));
  EXPECT_FALSE(wants(0, ""));
  EXPECT_TRUE(wants(0.01, ""));
}

TEST_F(TracerTest, WhoIsRecordedIsTheCallersDecisionThenTheRate) {
  const std::string unsampled = std::string(kHeader).substr(0, 53) + "00";
  EXPECT_EQ(Trace(1, unsampled).size(), 0u);
  EXPECT_EQ(Trace(0, "").size(), 0u);
  EXPECT_EQ(Trace(0, "nonsense").size(), 0u);
  const std::vector<Span> own = Trace(1, "nonsense");
  ASSERT_EQ(own.size(), 7u);
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

// Collectors refuse a whole batch, with the spans of other clients, for one string that is no
// UTF-8.
TEST_F(TracerTest, WhatClientsSayIsSentAsUtf8AndCut) {
  const std::vector<Span> spans = Trace(1, "", absl::InvalidArgumentError("no '\xFF'"), "id\xFF");
  EXPECT_EQ(Attribute(spans[0], "beamwright.request_id"), "id\\xff");
  EXPECT_EQ(spans[0].status().message(), "no \\'\\xff\\'");
  const std::vector<Span> wide = Trace(1, "", absl::OkStatus(), std::string(10'000, 'x'));
  EXPECT_LT(Attribute(wide[0], "beamwright.request_id").size(), 300u);
}

}  // namespace
}  // namespace beamwright::serving
