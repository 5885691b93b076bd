#include "client/load/server_facts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr char kBefore[] = R"(# HELP calls_total All calls
# TYPE calls_total counter
calls_total{code="OK",why="a } in \"quotes\""} 10
calls_total{code="BAD"} 1
# TYPE rows gauge
rows 5
# TYPE seconds histogram
seconds_bucket{le="+Inf"} 3
seconds_sum 0.25
seconds_count 3
)";

TEST(ServerFactsTest, TellsWhatCountersGainedAndWhereGaugesStand) {
  const auto before = ParseMetrics(kBefore);
  ASSERT_TRUE(before.ok()) << before.status();
  const auto after = ParseMetrics(R"(# TYPE calls_total counter
calls_total{code="OK",why="a } in \"quotes\""} 25 1700000000000
calls_total{code="BAD"} 1
calls_total{code="NEW"} 2
# TYPE rows gauge
rows 7
# TYPE seconds histogram
seconds_bucket{le="+Inf"} 9
seconds_sum 1.75
seconds_count 9
untyped_thing 4
)");
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_THAT(MetricsBetween(*before, *after),
              UnorderedElementsAre(Pair(R"(calls_total{code="OK",why="a } in \"quotes\""})", 15),
                                   Pair(R"(calls_total{code="NEW"})", 2), Pair("rows", 7),
                                   Pair("seconds_sum", 1.5), Pair("seconds_count", 6),
                                   Pair("untyped_thing", 4)));
}

TEST(ServerFactsTest, NamesTheLineThatIsNotASample) {
  for (const char* text : {"<html>", "a", "a{b=\"c\" 3", "a b"}) {
    EXPECT_THAT(std::string(ParseMetrics(std::string("x 1\n") + text).status().message()),
                HasSubstr(text));
  }
  EXPECT_TRUE(ParseMetrics("").ok());
  EXPECT_TRUE(ParseMetrics("a NaN\nb +Inf\r\n").ok());
}

TEST(ServerFactsTest, SaysWhenThereIsNobody) {
  EXPECT_EQ(ScrapeMetrics("127.0.0.1:1", absl::Seconds(5)).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_FALSE(ScrapeMetrics("", absl::Seconds(5)).ok());
  EXPECT_EQ(AskServerName(Protocol::kInferHttp, {.address = "127.0.0.1:1"}, absl::Seconds(5))
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace beamwright::client
