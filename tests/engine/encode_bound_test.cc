// Requests that run are not kept waiting by a crowd that has just come: between two steps no more
// source positions are encoded than are allowed. Work is counted, not time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "include/beamwright/engine.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::RandomTable;
using engine_testing::TableBundle;

constexpr int64_t kMostPositions = 20;

// What the engine does, in its order; holds it at the first step until released.
class Recorder : public EngineObserver {
 public:
  struct Encoded {
    int sources;
    int64_t positions;
  };

  void OnEncode(const DecodeModel&, int num_sources, int64_t num_positions,
                absl::Duration) override {
    encoded_.push_back({num_sources, num_positions});
  }
  void OnStep(const DecodeModel&, const StepFacts&) override {
    turns.push_back(std::move(encoded_));
    encoded_.clear();
    if (turns.size() == 1) {
      first_step.Notify();
      go_on.WaitForNotification();
    }
  }

  std::vector<std::vector<Encoded>> turns;  // what was encoded before each step
  absl::Notification first_step;
  absl::Notification go_on;

 private:
  std::vector<Encoded> encoded_;
};

v1::Source Ids(int length) {
  v1::Source source;
  for (int i = 0; i < length; ++i) {
    source.mutable_ids()->add_ids(3 + i % 4);
  }
  return source;
}

// By number of threads: with several, groups are encoded side by side.
class EncodeBoundTest : public ::testing::TestWithParam<int> {
 protected:
  EncodeBoundTest() {
    model_ = *DecodeModel::Compile(TableBundle(RandomTable(21), {}));
    EngineOptions options;
    options.num_threads = GetParam();
    options.max_encode_positions = kMostPositions;
    options.observer = &recorder_;
    engine_ = *Engine::Start(options);
  }

  void Decode(int length) {
    v1::DecodeOptions options;
    options.set_beam_size(1);
    options.set_max_length(5);
    options.set_stop(v1::STOP_MODE_NEVER);
    engine_->Decode(model_, Ids(length), options, {}, [this](const auto& decoded) {
      absl::MutexLock lock(&mutex_);
      answered_ += decoded.ok() ? 1 : 0;
    });
  }

  // One runs; then `lengths` come at once, before its second step.
  void DecodeCrowd(const std::vector<int>& lengths) {
    Decode(4);
    recorder_.first_step.WaitForNotification();
    for (const int length : lengths) {
      Decode(length);
    }
    recorder_.go_on.Notify();
    engine_->Drain();
    EXPECT_EQ(answered_, static_cast<int>(lengths.size()) + 1);
  }

  std::shared_ptr<const DecodeModel> model_;
  Recorder recorder_;
  absl::Mutex mutex_;
  int answered_ = 0;
  std::unique_ptr<Engine> engine_;  // its callbacks use the others
};

TEST_P(EncodeBoundTest, NoGapBetweenStepsHasMoreThanIsAllowed) {
  std::mt19937 random(1);
  std::vector<int> lengths;
  int64_t all = 4;
  for (int i = 0; i < 200; ++i) {
    lengths.push_back(1 + static_cast<int>(random() % 30));
    all += lengths.back();
  }
  DecodeCrowd(lengths);
  int64_t encoded = 0;
  for (const auto& turn : recorder_.turns) {
    int64_t positions = 0;
    for (const Recorder::Encoded& group : turn) {
      positions += group.positions;
    }
    encoded += positions;
    // A source that is longer than what is allowed is encoded alone.
    const bool is_long = turn.size() == 1 && turn[0].sources == 1;
    EXPECT_TRUE(positions <= kMostPositions || (is_long && positions <= 30)) << positions;
  }
  EXPECT_EQ(encoded, all);
}

// What waits longest goes first, and takes those of its length along.
TEST_P(EncodeBoundTest, SourcesOfEqualLengthAreEncodedTogether) {
  DecodeCrowd({3, 7, 3, 3, 7, 3, 3, 3, 3});
  std::vector<std::string> groups;
  for (const auto& turn : recorder_.turns) {
    for (const Recorder::Encoded& group : turn) {
      groups.push_back(absl::StrCat(group.sources, " with ", group.positions));
    }
    groups.push_back("step");
  }
  groups.resize(6);
  // 6 x 3, then 7 does not fit any more; it comes before the last 3.
  EXPECT_THAT(groups, ::testing::ElementsAre("1 with 4", "step", "6 with 18", "step", "2 with 14",
                                             "1 with 3"));
}

TEST_P(EncodeBoundTest, LimitsMustBePositive) {
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}}) {
    EngineOptions positions;
    positions.max_encode_positions = wrong;
    EXPECT_EQ(Engine::Start(positions).status().code(), absl::StatusCode::kInvalidArgument);
    EngineOptions bytes;
    bytes.max_bytes = wrong;
    EXPECT_EQ(Engine::Start(bytes).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, EncodeBoundTest, ::testing::Values(1, 2, 5));

}  // namespace
}  // namespace beamwright::engine
