#include "engine/queue/encode_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
}  // namespace beamwright::engine
