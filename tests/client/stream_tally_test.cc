#include "client/load/stream_load.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::client {
namespace {

using WordIds = std::vector<int32_t>;
using ::testing::ElementsAre;
using ::testing::Pair;

// Moments by their milliseconds since the source began.
absl::Time HeardAt(int ms) { return absl::UnixEpoch() + absl::Milliseconds(ms); }

v1::RecognizeResponse StableWords(int position, const WordIds& tokens) {
  v1::RecognizeResponse message;
  message.mutable_stable()->set_position(position);
  message.mutable_stable()->mutable_tokens()->Assign(tokens.begin(), tokens.end());
  return message;
}

v1::RecognizeResponse SegmentOf(const WordIds& tokens) {
  v1::RecognizeResponse message;
  message.add_segments()->add_hypotheses()->mutable_tokens()->Assign(tokens.begin(), tokens.end());
  return message;
}

v1::RecognizeResponse SummaryMessage() {
  v1::RecognizeResponse message;
  message.mutable_summary();
  return message;
}

StreamTally::Stream TwoSeconds() {
  StreamTally::Stream stream;
  stream.begin = HeardAt(0);
  stream.length = absl::Seconds(2);
  stream.sound = absl::Seconds(4);  // spoken twice as fast
  return stream;
}

TEST(StreamTallyTest, TheAnswerIsTimedFromTheEndOfTheSoundAndTheFirstWordFromItsBeginning) {
  StreamTally tally;
  StreamTally::Stream stream = TwoSeconds();
  tally.Begin();
  tally.Hear(stream, StableWords(0, {}), HeardAt(100));  // no word
  tally.Hear(stream, StableWords(0, {5}), HeardAt(700));
  tally.Hear(stream, StableWords(1, {6, 7}), HeardAt(900));
  tally.Hear(stream, SegmentOf({5, 6, 7}), HeardAt(1900));
  tally.Hear(stream, SegmentOf({}), HeardAt(2050));
  tally.Hear(stream, SummaryMessage(), HeardAt(2100));
  EXPECT_FALSE(tally.WaitUntilNone(absl::ZeroDuration()));
  tally.End(stream, absl::OkStatus());
  EXPECT_TRUE(tally.WaitUntilNone(absl::ZeroDuration()));
  const StreamLoadReport report = tally.Report();
  EXPECT_EQ(report.num_heard, 1);
  EXPECT_EQ(report.num_segments, 2);
  EXPECT_EQ(report.num_contradicted, 0);
  EXPECT_EQ(report.sound, absl::Seconds(4));
  EXPECT_EQ(report.final_latency.max, absl::Milliseconds(100));
  EXPECT_EQ(report.first_word.max, absl::Milliseconds(700));
  EXPECT_EQ(report.real_time_factor.max, absl::Microseconds(1050));
}

bool IsContradicted(const std::vector<v1::RecognizeResponse>& messages) {
  StreamTally tally;
  StreamTally::Stream stream = TwoSeconds();
  tally.Begin();
  for (const v1::RecognizeResponse& message : messages) {
    tally.Hear(stream, message, HeardAt(1));
  }
  tally.Hear(stream, SummaryMessage(), HeardAt(2));
  tally.End(stream, absl::OkStatus());
  EXPECT_EQ(tally.Report().num_contradicted, stream.is_contradicted ? 1 : 0);
  return stream.is_contradicted;
}

TEST(StreamTallyTest, WhatIsStableMustBeTheBeginningOfItsSegmentWithoutAGap) {
  EXPECT_FALSE(IsContradicted({StableWords(0, {1}), StableWords(1, {2}), SegmentOf({1, 2, 3})}));
  EXPECT_FALSE(IsContradicted(
      {StableWords(0, {1}), SegmentOf({1}), StableWords(0, {9}), SegmentOf({9, 1})}));
  EXPECT_TRUE(IsContradicted({StableWords(0, {1}), SegmentOf({2})}));
  EXPECT_TRUE(IsContradicted({StableWords(0, {1, 2}), SegmentOf({1})}));
  EXPECT_TRUE(IsContradicted({StableWords(0, {1}), StableWords(2, {3}), SegmentOf({1, 3})}))
      << "a gap";
  EXPECT_TRUE(IsContradicted({StableWords(0, {1}), StableWords(0, {2}), SegmentOf({1, 2})}))
      << "taken back";
  EXPECT_TRUE(IsContradicted({StableWords(0, {1}), SegmentOf({1}), StableWords(1, {2})}))
      << "a new segment";
}

TEST(StreamTallyTest, StreamsWithoutASummaryFailed) {
  StreamTally tally;
  const StreamTally::Stream stream = TwoSeconds();
  for (int i = 0; i < 3; ++i) {
    tally.Begin();
  }
  tally.End(stream, absl::OkStatus());
  tally.End(stream, absl::UnavailableError("gone"));
  tally.Stop();
  tally.End(stream, absl::CancelledError("stopped"));
  const StreamLoadReport report = tally.Report();
  EXPECT_EQ(report.num_heard, 0);
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(report.first_failure, absl::InternalError("no summary came"));
  EXPECT_THAT(report.failed, ElementsAre(Pair(absl::StatusCode::kInternal, 1),
                                         Pair(absl::StatusCode::kUnavailable, 1)));
}

}  // namespace
}  // namespace beamwright::client
