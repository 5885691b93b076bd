#include "engine/queue/encode_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "include/beamwright/engine.h"
#include "tests/engine/table_bundle.h"
#include "tests/engine/unequal_bundle.h"
#include "tests/engine/waiting_request.h"

namespace beamwright::engine {
namespace {

using ::testing::ElementsAre;

using ModelPtr = std::shared_ptr<const DecodeModel>;

std::unique_ptr<Request> Waiting(const ModelPtr& model, int64_t source_length) {
  auto request = std::make_unique<engine_testing::WaitingRequest>();
  request->model = model;
  request->source.source_length = static_cast<int>(source_length);
  request->source.encoder_input.emplace(ops::DType::kI64, ops::Shape{1, source_length});
  return request;
}

TEST(EncodeQueueTest, AGroupIsOfOneModelAndOneShape) {
  const auto compile = [] {
    return *DecodeModel::Compile(engine_testing::TableBundle(engine_testing::RandomTable(1), {}));
  };
  const ModelPtr first = compile();
  const ModelPtr second = compile();
  ASSERT_TRUE(first->encodes_together() && second->encodes_together());
  EncodeQueue queue;
  EncodeQueue::Requests requests;
  for (const auto& [model, length] :
       {std::pair(first, 4), {second, 4}, {first, 5}, {first, 4}, {second, 4}}) {
    requests.push_back(Waiting(model, length));
  }
  queue.Add(std::move(requests));
  struct Group {
    ModelPtr model;
    int length;
    size_t size;
  };
  for (const Group& expected : {Group{first, 4, 2}, Group{second, 4, 2}, Group{first, 5, 1}}) {
    const EncodeQueue::Requests group = queue.TakeGroup(/*positions=*/1000);
    ASSERT_EQ(group.size(), expected.size);
    for (const auto& request : group) {
      EXPECT_EQ(request->model, expected.model);
      EXPECT_EQ(request->source.source_length, expected.length);
    }
  }
  EXPECT_TRUE(queue.empty());
}

// What is taken of sources of these lengths, group by group.
std::vector<std::vector<int>> GroupsOf(const ModelPtr& model, const std::vector<int>& lengths,
                                       int64_t positions) {
  EncodeQueue queue;
  EncodeQueue::Requests requests;
  for (const int length : lengths) {
    requests.push_back(Waiting(model, length));
  }
  queue.Add(std::move(requests));
  std::vector<std::vector<int>> groups;
  while (!queue.empty()) {
    std::vector<int>& group = groups.emplace_back();
    for (const auto& request : queue.TakeGroup(positions)) {
      group.push_back(request->source.source_length);
    }
  }
  return groups;
}

// The source that waits longest goes first, in the company of those whose lengths are nearest, the
// longest in front.
TEST(EncodeQueueTest, AGroupMayBeOfSeveralLengths) {
  using Lengths = std::vector<int>;
  const auto model = *DecodeModel::Compile(engine_testing::UnequalBundle(1));
  ASSERT_TRUE(model->encodes_lengths_together()) << model->lengths_apart();
  EXPECT_THAT(GroupsOf(model, {8, 6, 9, 7}, 1000), ElementsAre(Lengths{9, 8, 7, 6}));
  // 30 would have the others filled up with more than a quarter of all.
  EXPECT_THAT(GroupsOf(model, {8, 30, 9}, 1000), ElementsAre(Lengths{9, 8}, Lengths{30}));
  EXPECT_THAT(GroupsOf(model, {30, 8, 9}, 1000), ElementsAre(Lengths{30}, Lengths{9, 8}));
  // What they are filled up with counts like positions.
  EXPECT_THAT(GroupsOf(model, {8, 6, 9, 7}, 27), ElementsAre(Lengths{8, 7, 6}, Lengths{9}));
  EXPECT_THAT(GroupsOf(model, {8, 6, 9, 7}, 1),
              ElementsAre(Lengths{8}, Lengths{6}, Lengths{9}, Lengths{7}));
}

// Of equal lengths those go first that wait longest.
TEST(EncodeQueueTest, NobodyIsPassedByOthersOfHisLength) {
  const auto model = *DecodeModel::Compile(engine_testing::UnequalBundle(1));
  for (const int others : {4, 5, 6}) {
    EncodeQueue queue;
    EncodeQueue::Requests requests;
    requests.push_back(Waiting(model, 5));
    const Request* const first_of_others = requests.emplace_back(Waiting(model, others)).get();
    requests.push_back(Waiting(model, others));
    queue.Add(std::move(requests));
    const EncodeQueue::Requests group = queue.TakeGroup(/*positions=*/12);
    ASSERT_EQ(group.size(), 2u);
    EXPECT_TRUE(group[0].get() == first_of_others || group[1].get() == first_of_others) << others;
  }
}

}  // namespace

// Requests that run are not kept waiting by a crowd that has just come: between two steps no more
// source positions are encoded than are allowed. Work is counted, not time.

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
