// Models that keep their memory from run to run.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/ops/loop/counted_allocations.h"
#include "tests/ops/loop/run_graph.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing_support::Carried;
using testing_support::CountAllocations;
using testing_support::CountedAllocations;
using testing_support::GraphBuilder;
using testing_support::Joined;
using testing_support::Sliced;
using testing_support::StopCounting;

// sum(t) = relu(sum(t - 1) + x(t)) along axis 1 of [2, steps, 3], with what exporters put around
// it: views of slices and of results. Outputs: every sum [2, steps, 3], and the last one twice, the
// second time as [6].
Graph RunningSums() {
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {2, 1, 3});
  const auto sum = body.Parameter("sum", DType::kF32, {2, 3});
  const auto next =
      body.Add("ReLU", {body.Add("Add", {body.Add("Squeeze", {x, body.Ints({1})}), sum})});
  body.Result("next", next);
  body.Result("part", body.Add("Unsqueeze", {next, body.Ints({1})}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 1), Carried(1, 1, 0)};
  loop.outputs = {Joined(0, 1, 1), testing_support::Last(1, 0)};
  GraphBuilder builder;
  const auto in = builder.Parameter("in", DType::kF32, {2, -1, 3});
  const auto start = builder.Parameter("start", DType::kF32, {2, 3});
  const auto out = builder.Loop({in, start}, loop, 2);
  builder.Result("all", out);
  builder.Result("last", {out.node, 1});
  builder.Result("flat", builder.Add("Reshape", {{out.node, 1}, builder.Ints({-1})},
                                     {{"special_zero", false}}));
  return builder.Build();
}

Tensor Steps(int64_t steps, float first) {
  Tensor tensor(DType::kF32, {2, steps, 3});
  std::iota(tensor.mutable_data<float>(), tensor.mutable_data<float>() + 6 * steps, first);
  return tensor;
}

// What the graph says, element by element.
std::vector<float> ExpectedSums(const Tensor& in, const Tensor& start) {
  std::vector<float> sums(static_cast<size_t>(in.num_elements()));
  const int64_t steps = in.dim(1);
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t k = 0; k < 3; ++k) {
      float sum = start.data<float>()[row * 3 + k];
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t at = (row * steps + t) * 3 + k;
        sum = std::max(sum + in.data<float>()[at], 0.0f);
        sums[static_cast<size_t>(at)] = sum;
      }
    }
  }
  return sums;
}

class WorkspaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = Model::Compile(RunningSums());
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }
  void Run(const Tensor& in, const Tensor& start) {
    const absl::Status status = model_->Run(ExecutionContext(), {in, start}, workspace_, outputs_);
    ASSERT_TRUE(status.ok()) << status;
  }

  std::unique_ptr<Model> model_;
  Model::Workspace workspace_;
  std::vector<Tensor> outputs_;
};

TEST_F(WorkspaceTest, RunsOfAnyLengthFollowOneAnother) {
  const Tensor start = F32({2, 3}, {1, -2, 3, -40, 5, -6});
  for (const int64_t steps : {3, 7, 1, 7, 2}) {
    const Tensor in = Steps(steps, static_cast<float>(-4 * steps));
    Run(in, start);
    const std::vector<float> expected = ExpectedSums(in, start);
    EXPECT_EQ(Floats(outputs_[0]), expected) << steps;
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t k = 0; k < 3; ++k) {
        const float last = expected[static_cast<size_t>((row * steps + steps - 1) * 3 + k)];
        EXPECT_EQ(outputs_[1].data<float>()[row * 3 + k], last);
        EXPECT_EQ(outputs_[2].data<float>()[row * 3 + k], last);
      }
    }
    EXPECT_EQ(Floats(start), (std::vector<float>{1, -2, 3, -40, 5, -6}));
  }
}

TEST_F(WorkspaceTest, WhatTheCallerHoldsStaysAsItIs) {
  const Tensor start = Tensor::Zeros(DType::kF32, {2, 3});
  Run(Steps(4, 1), start);
  const std::vector<Tensor> held = outputs_;
  const std::vector<float> all = Floats(held[0]);
  const std::vector<float> last = Floats(held[1]);
  // The last value goes back in as the state that the next run starts from.
  Run(Steps(4, 100), held[1]);
  EXPECT_EQ(Floats(held[0]), all);
  EXPECT_EQ(Floats(held[1]), last);
  EXPECT_EQ(Floats(held[2]), last);
  EXPECT_EQ(Floats(outputs_[0]), ExpectedSums(Steps(4, 100), held[1]));
}

TEST_F(WorkspaceTest, OutputsGiveTheirMemoryBack) {
  const Tensor start = Tensor::Zeros(DType::kF32, {2, 3});
  Run(Steps(5, 1), start);
  const std::byte* const memory = outputs_[0].bytes();
  Run(Steps(5, 2), start);
  EXPECT_EQ(outputs_[0].bytes(), memory);
}

TEST_F(WorkspaceTest, IterationsAllocateNothing) {
  if (!testing_support::AllocationsAreCounted()) {
    GTEST_SKIP() << "sanitizers allocate by themselves";
  }
  const Tensor start = Tensor::Zeros(DType::kF32, {2, 3});
  const auto count = [&](int64_t steps) {
    const Tensor in = Steps(steps, 1);
    Run(in, start);  // makes room
    CountAllocations();
    Run(in, start);
    return StopCounting();
  };
  const CountedAllocations many = count(90);
  EXPECT_EQ(many.count, count(4).count) << "called from" << many.callers;
}

}  // namespace
}  // namespace beamwright::ops
