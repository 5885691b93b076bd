#include "server/engine/queue/encode_queue.h"

#include <gtest/gtest.h>

#include "tests/server/engine/table_bundle.h"
#include "tests/server/engine/waiting_request.h"

namespace beamwright::engine {
namespace {

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

}  // namespace
}  // namespace beamwright::engine
