// A steady step allocates nothing.
#include <gtest/gtest.h>

#include <random>

#include "ops/loop/loop_body.h"
#include "ops/loop/operators.h"
#include "tests/ops/loop/counted_allocations.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing_support::Carried;
using testing_support::CountAllocations;
using testing_support::CountedAllocations;
using testing_support::GraphBuilder;
using testing_support::Invariant;
using testing_support::Sliced;
using testing_support::StopCounting;

constexpr int64_t kWidth = 24;
constexpr int64_t kVocabulary = 70;

Tensor Random(Shape shape) {
  static std::mt19937 random(1);
  Tensor tensor(DType::kF32, std::move(shape));
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = uniform(random);
  }
  return tensor;
}

// What a decoder's step is made of: embedding, LSTM, attention over a memory of the request's own
// length, projection.
std::shared_ptr<Loop> DecoderStep() {
  GraphBuilder body;
  const auto token = body.Parameter("token", DType::kI64, {-1, 1});
  const auto h = body.Parameter("h", DType::kF32, {-1, kWidth});
  const auto c = body.Parameter("c", DType::kF32, {-1, kWidth});
  const auto memory = body.Parameter("memory", DType::kF32, {-1, -1, kWidth});
  const auto weight = [&](Shape shape) { return body.Constant(Random(std::move(shape))); };
  const auto id = body.Add("Squeeze", {token, body.Ints({1})});
  const auto x = body.Add("Gather", {weight({kVocabulary, kWidth}), id, body.Int(0)});
  const auto cell = body.Add(
      "LSTMCell",
      {x, h, c, weight({4 * kWidth, kWidth}), weight({4 * kWidth, kWidth}), weight({4 * kWidth})},
      {{"hidden_size", kWidth}}, "cell", 2);
  const auto query = body.Add("Unsqueeze", {cell, body.Ints({1})});
  const auto scores = body.Add("MatMul", {query, memory}, {{"transpose_b", true}});
  const auto attention = body.Add("SoftMax", {scores}, {{"axis", int64_t{2}}});
  const auto mixed = body.Add("MatMul", {attention, memory});
  const auto context = body.Add("Squeeze", {mixed, body.Ints({1})});
  const auto features = body.Add("Concat", {cell, context}, {{"axis", int64_t{1}}});
  const auto product = body.Add("MatMul", {features, weight({2 * kWidth, kVocabulary})});
  body.Result("logits", body.Add("Add", {product, weight({kVocabulary})}));
  body.Result("h_next", cell);
  body.Result("c_next", {cell.node, 1});
  auto loop = std::make_shared<Loop>();
  loop->body = body.Build();
  loop->inputs = {Sliced(0, 0, 1), Carried(1, 1, 1), Carried(2, 2, 2), Invariant(3, 3)};
  return loop;
}

TEST(Allocation, ASteadyStepAllocatesNothing) {
  if (!testing_support::AllocationsAreCounted()) {
    GTEST_SKIP() << "sanitizers allocate by themselves";
  }
  const auto loop = DecoderStep();
  const auto info = InferGraph(loop->body, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  const auto body = LoopBody::Compile(loop, *info, Operators());
  ASSERT_TRUE(body.ok()) << body.status();
  ASSERT_TRUE((*body)->plan().separable) << (*body)->plan().reason;

  const std::vector<Tensor> memories = {Random({1, 5, kWidth}), Random({1, 9, kWidth})};
  std::vector<LoopBody::RequestValues> values(2);
  std::vector<LoopBody::RequestValues*> requests;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE((*body)->Bind(ExecutionContext(), {&memories[i], 1}, values[i]).ok());
    requests.push_back(&values[i]);
  }
  const std::vector<int> counts = {3, 2};
  const std::vector<int32_t> parents = {1, 0, 0, 4, 3};
  const Tensor tokens = Tensor::Of<int64_t>({5, 1}, std::vector<int64_t>{3, 1, 4, 1, 5});
  std::vector<Tensor> states = {Random({5, kWidth}), Random({5, kWidth})};
  std::vector<Tensor> results;
  LoopBody::RowScratch scratch;
  const LoopBody::RowStep step{requests, counts, parents, {&tokens, 1}};
  for (int i = 0; i < 6; ++i) {
    if (i >= 3) {
      CountAllocations();
    }
    const absl::Status status =
        (*body)->StepRows(ExecutionContext(), step, scratch, states, results);
    const CountedAllocations counted = StopCounting();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(counted.count, 0) << "step " << i << ", called from" << counted.callers;
  }
}

}  // namespace
}  // namespace beamwright::ops
