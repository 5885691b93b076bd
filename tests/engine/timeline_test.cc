// What the engine notes of a source for those who trace it.
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "engine/request/tenant.h"
#include "include/beamwright/engine.h"
#include "tests/engine/fused_bundle.h"

namespace beamwright::engine {
namespace {

class TimelineTest : public ::testing::Test {
 protected:
  TimelineTest() {
    model_ = *DecodeModel::Compile(engine_testing::FusedBundle({1, v1::ENSEMBLE_MEAN_LOG_PROBS}));
    EngineOptions options;
    options.num_threads = 1;
    engine_ = *Engine::Start(options);
    source_.mutable_ids()->add_ids(4);
  }

  std::shared_ptr<const DecodeModel> model_;
  std::unique_ptr<Engine> engine_;
  v1::Source source_;
};

TEST_F(TimelineTest, HasEveryPartInItsOrder) {
  Timeline line;
  CallOptions call;
  call.timeline = &line;
  v1::DecodeOptions options;
  options.set_beam_size(3);
  options.set_max_length(20);
  options.set_stop(v1::STOP_MODE_NEVER);
  ASSERT_TRUE(engine_->DecodeAndWait(model_, source_, options, call).ok());
  EXPECT_GT(line.accepted, absl::InfinitePast());
  EXPECT_LE(line.accepted, line.started);
  EXPECT_LE(line.started, line.encoded);
  EXPECT_LE(line.encoded, line.marks.at(0).at);
  EXPECT_LE(line.marks.at(0).at, line.marks.at(1).at);
  EXPECT_LE(line.marks.at(1).at, line.searched);
  EXPECT_LE(line.searched, line.written);
  EXPECT_EQ(line.beam_size, 3);
  EXPECT_EQ(line.num_steps, 20);
  ASSERT_EQ(line.marks.size(), 2u);
  EXPECT_EQ(line.marks[0].steps, 8);
  EXPECT_EQ(line.marks[1].steps, 16);
}

TEST_F(TimelineTest, ScoringHasTheSameParts) {
  Timeline line;
  CallOptions call;
  call.timeline = &line;
  v1::ScoreSource source;
  *source.mutable_source() = source_;
  for (int target = 0; target < 2; ++target) {
    source.add_targets()->mutable_ids()->add_ids(5);
  }
  absl::Notification done;
  engine_->Score(model_, source, {}, call, [&](const absl::StatusOr<v1::Scored>& scored) {
    EXPECT_TRUE(scored.ok()) << scored.status();
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_GT(line.accepted, absl::InfinitePast());
  EXPECT_LE(line.accepted, line.started);
  EXPECT_LE(line.started, line.encoded);
  EXPECT_LE(line.encoded, line.searched);
  EXPECT_LE(line.searched, line.written);
  EXPECT_EQ(line.beam_size, 2);
  EXPECT_EQ(line.num_steps, 2);
}

TEST_F(TimelineTest, OfWhatFailsEndsWhereItFailed) {
  Timeline line;
  CallOptions call;
  call.timeline = &line;
  const auto given_up = std::make_shared<CancelFlag>();
  given_up->Cancel();
  call.cancelled = given_up;
  EXPECT_FALSE(engine_->DecodeAndWait(model_, source_, {}, call).ok());
  EXPECT_GT(line.accepted, absl::InfinitePast());
  EXPECT_EQ(line.searched, absl::InfinitePast());
  EXPECT_EQ(line.written, absl::InfinitePast());
}

TEST(TimelineMarksTest, AreBounded) {
  Timeline line;
  for (int i = 0; i < 10'000; ++i) {
    line.Step();
  }
  EXPECT_EQ(line.num_steps, 10'000);
  EXPECT_EQ(line.marks.size(), Timeline::kMostMarks);
}

}  // namespace
}  // namespace beamwright::engine
