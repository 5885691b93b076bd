// Steps of several requests, whose rows read the values of their request, against plain sums.
#include <gtest/gtest.h>

#include "ops/loop/loop_body.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Invariant;
using testing_support::Sliced;

constexpr int64_t kHalf = 3;

// h [rows, 2 * kHalf] plus the request's memory [1, 2 * kHalf], added by halves: both are
// [.., kHalf] there, with two elements of the first axis for each row.
std::unique_ptr<LoopBody> SumByHalves() {
  GraphBuilder body;
  const auto token = body.Parameter("token", DType::kI64, {-1, 1});
  const auto h = body.Parameter("h", DType::kF32, {-1, 2 * kHalf});
  const auto memory = body.Parameter("memory", DType::kF32, {-1, 2 * kHalf});
  const auto reshape = [&](GraphBuilder::Value value, int64_t width) {
    return body.Add("Reshape", {value, body.Ints({-1, width})});
  };
  const auto number = body.Add("Convert", {token}, {{"destination_type", std::string("f32")}});
  const auto sum =
      body.Add("Add", {reshape(body.Add("Add", {h, number}), kHalf), reshape(memory, kHalf)});
  body.Result("next", reshape(sum, 2 * kHalf));
  auto loop = std::make_shared<Loop>();
  loop->body = body.Build();
  loop->inputs = {Sliced(0, 0, 1), Carried(1, 1, 0), Invariant(2, 2)};
  auto info = InferGraph(loop->body, Operators());
  EXPECT_TRUE(info.ok()) << info.status();
  auto compiled = LoopBody::Compile(loop, *info, Operators());
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

TEST(StepRowsTest, RowsOfSeveralElementsReadTheirRequest) {
  const auto body = SumByHalves();
  ASSERT_TRUE(body->plan().separable) << body->plan().reason;
  const std::vector<int> counts = {2, 1, 3};
  std::vector<Tensor> memories;
  std::vector<LoopBody::RequestValues> values(counts.size());
  std::vector<LoopBody::RequestValues*> pointers;
  std::vector<int32_t> parents;
  std::vector<int64_t> tokens;
  std::vector<float> expected;
  std::vector<float> old;
  for (size_t request = 0; request < counts.size(); ++request) {
    std::vector<float> memory;
    for (int i = 0; i < 2 * kHalf; ++i) {
      memory.push_back(static_cast<float>(100 * request + static_cast<size_t>(i)));
    }
    memories.push_back(Tensor::Of<float>({1, 2 * kHalf}, memory));
    for (int row = 0; row < counts[request]; ++row) {
      const auto number = static_cast<int64_t>(parents.size());
      parents.push_back(static_cast<int32_t>(number));
      tokens.push_back(10'000 * number);
      for (int i = 0; i < 2 * kHalf; ++i) {
        old.push_back(static_cast<float>(1000 * number));
        expected.push_back(memory[static_cast<size_t>(i)] + static_cast<float>(11'000 * number));
      }
    }
  }
  for (size_t request = 0; request < counts.size(); ++request) {
    ASSERT_TRUE(body->Bind(ExecutionContext(), {&memories[request], 1}, values[request]).ok());
    pointers.push_back(&values[request]);
  }
  const auto rows = static_cast<int64_t>(parents.size());
  const Tensor token = Tensor::Of<int64_t>({rows, 1}, tokens);
  std::vector<Tensor> states = {Tensor::Of<float>({rows, 2 * kHalf}, old)};
  std::vector<Tensor> results;
  LoopBody::RowScratch scratch;
  const absl::Status status = body->StepRows(
      ExecutionContext(), {pointers, counts, parents, {&token, 1}}, scratch, states, results);
  ASSERT_TRUE(status.ok()) << status;
  const absl::Span<const float> found = states[0].span<float>();
  EXPECT_EQ(std::vector<float>(found.begin(), found.end()), expected);
}

}  // namespace
}  // namespace beamwright::ops
