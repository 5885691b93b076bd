// Scan of opset 9 and of opset 8 in the internal form: the cases of ONNX Runtime's scan tests,
// with its body (a counter, and two elements joined and split into four outputs) and its numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ops/loop/run_graph.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Invariant;
using testing_support::Last;
using testing_support::Scanned;
using testing_support::Stacked;

struct Directions {
  bool first_input = false;
  bool second_input = false;
  bool first_output = false;
};

// Body: counter + step (`step` comes from outside), concat(a, b) split into four.
Loop CountAndSplit(Shape element, const Directions& directions = {}) {
  GraphBuilder body;
  const auto counter = body.Parameter("counter", DType::kF32, {});
  const auto a = body.Parameter("a", DType::kF32, element);
  const auto b = body.Parameter("b", DType::kF32, element);
  const auto step = body.Parameter("step", DType::kF32, {});
  const auto joined = body.Add("Concat", {a, b}, {{"axis", int64_t{0}}});
  body.Result("counter_out", body.Add("Add", {counter, step}));
  const auto split =
      body.Add("Split", {joined, body.Int(0)}, {{"num_splits", int64_t{4}}}, "split", 4);
  for (int i = 0; i < 4; ++i) {
    body.Result("out" + std::to_string(i), {split.node, i});
  }
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Carried(0, 0, 0), Scanned(1, 1, 0, directions.first_input),
                 Scanned(2, 2, 0, directions.second_input), Invariant(3, 3)};
  loop.outputs = {Last(0, 0)};
  for (int i = 0; i < 4; ++i) {
    loop.outputs.push_back(Stacked(1 + i, 1 + i, 0, i == 0 && directions.first_output));
  }
  return loop;
}

absl::StatusOr<std::vector<Tensor>> RunScan(Loop loop, std::vector<Tensor> inputs,
                                            bool shapes_known = false) {
  GraphBuilder graph;
  std::vector<ValueId> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(
        graph.Parameter("in" + std::to_string(i), inputs[i].dtype(),
                        shapes_known ? inputs[i].shape() : Shape(inputs[i].shape().size(), -1)));
  }
  const auto num_outputs = static_cast<int>(loop.outputs.size());
  const auto out = graph.Loop(values, std::move(loop), num_outputs);
  for (int i = 0; i < num_outputs; ++i) {
    graph.Result("out" + std::to_string(i), {out.node, i});
  }
  return RunGraph(graph.Build(), inputs);
}

const Tensor kZero = Tensor::Scalar(0.0f);
const Tensor kOne = Tensor::Scalar(1.0f);

TEST(Scan9, ShapesKnownInsideOutsideOrNowhere) {
  const Tensor a = F32({2, 2}, {1, 2, 4, 3});
  const Tensor b = F32({2, 2}, {3, 4, 2, 1});
  for (const Shape& element : {Shape{2}, Shape{-1}}) {
    for (const bool outside : {false, true}) {
      const auto out = RunScan(CountAndSplit(element), {kZero, a, b, kOne}, outside);
      ASSERT_TRUE(out.ok()) << out.status();
      EXPECT_THAT(Floats((*out)[0]), ElementsAre(2));
      EXPECT_EQ((*out)[0].shape(), Shape{});
      EXPECT_EQ((*out)[1].shape(), (Shape{2, 1}));
      EXPECT_THAT(Floats((*out)[1]), ElementsAre(1, 4));
      EXPECT_THAT(Floats((*out)[2]), ElementsAre(2, 3));
      EXPECT_THAT(Floats((*out)[3]), ElementsAre(3, 2));
      EXPECT_THAT(Floats((*out)[4]), ElementsAre(4, 1));
    }
  }
  // A value of the graph around, read in each iteration.
  EXPECT_THAT(Floats(RunScan(CountAndSplit({2}), {kZero, a, b, Tensor::Scalar(42.0f)})->at(0)),
              ElementsAre(84));
}

TEST(Scan9, BadShape) {
  const Tensor a = F32({2, 2}, {1, 2, 4, 3});
  EXPECT_THAT(ErrorOf(RunScan(CountAndSplit({2, 2}), {kZero, a, a, kOne}, true)),
              HasSubstr("is declared [2, 2] but is [2]"));
  EXPECT_THAT(
      ErrorOf(RunScan(CountAndSplit({2}), {kZero, a, F32({3, 2}, {1, 2, 3, 4, 5, 6}), kOne})),
      HasSubstr("has 3 parts, another sliced input has 2"));
}

TEST(Scan9, Directions) {
  const Tensor a = F32({2, 2}, {1, 2, 4, 3});
  const Tensor b = F32({2, 2}, {3, 4, 2, 1});
  const auto reversed_input =
      RunScan(CountAndSplit({2}, {true, false, false}), {kZero, a, b, kOne});
  EXPECT_THAT(Floats((*reversed_input)[1]), ElementsAre(4, 1));
  EXPECT_THAT(Floats((*reversed_input)[3]), ElementsAre(3, 2));
  const auto reversed_output =
      RunScan(CountAndSplit({2}, {false, false, true}), {kZero, a, b, kOne});
  EXPECT_THAT(Floats((*reversed_output)[1]), ElementsAre(4, 1));
  EXPECT_THAT(Floats((*reversed_output)[2]), ElementsAre(2, 3));
}

TEST(Scan9, AxesMayBeNegativeAndOutputsTransposed) {
  for (const int64_t axis : {1, -1}) {
    Loop loop = CountAndSplit({2});
    loop.inputs[1].axis = axis;
    loop.inputs[2].axis = axis;
    loop.outputs[1].axis = axis;
    const auto out =
        RunScan(loop, {kZero, F32({2, 2}, {1, 4, 2, 3}), F32({2, 2}, {3, 2, 4, 1}), kOne});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[1].shape(), (Shape{1, 2}));
    EXPECT_THAT(Floats((*out)[1]), ElementsAre(1, 4));
    EXPECT_EQ((*out)[2].shape(), (Shape{2, 1}));
    EXPECT_THAT(Floats((*out)[2]), ElementsAre(2, 3));
  }
  Loop loop = CountAndSplit({2});
  loop.outputs[1].axis = 2;
  const Tensor a = F32({2, 2}, {1, 2, 4, 3});
  EXPECT_THAT(ErrorOf(RunScan(loop, {kZero, a, a, kOne})), HasSubstr("axis 2 is outside [-2, 1]"));
}

// Elements of scalars and of rank 2 are stacked along a new axis.
TEST(Scan9, TransposeOutputDim2) {
  GraphBuilder body;
  body.Result("y", body.Parameter("x", DType::kI64, {2, 1}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Scanned(0, 0)};
  loop.outputs = {Stacked(0, 0, 2)};
  const auto out = RunScan(loop, {I64({3, 2, 1}, {1, 2, 3, 4, 5, 6})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].shape(), (Shape{2, 1, 3}));
  EXPECT_THAT((*out)[0].span<int64_t>(), ElementsAre(1, 3, 5, 2, 4, 6));
}

TEST(Scan9, MixedTypes) {
  GraphBuilder body;
  const auto count = body.Parameter("count", DType::kI64, {});
  const auto sum = body.Parameter("sum", DType::kF32, {});
  const auto x = body.Parameter("x", DType::kF32, {});
  const auto k = body.Parameter("k", DType::kI64, {});
  body.Result("count_out", body.Add("Add", {count, k}));
  body.Result("sum_out", body.Add("Add", {sum, x}));
  body.Result("x_out", x);
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Carried(0, 0, 0), Carried(1, 1, 1), Scanned(2, 2), Scanned(3, 3, 0, true)};
  loop.outputs = {Last(0, 0), Last(1, 1), Stacked(2, 0), Stacked(3, 2)};
  const auto out = RunScan(loop, {I64({}, {5}), kZero, F32({2}, {0.5, 1.5}), I64({2}, {10, 20})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT((*out)[0].span<int64_t>(), ElementsAre(35));
  EXPECT_THAT(Floats((*out)[1]), ElementsAre(2));
  EXPECT_THAT((*out)[2].span<int64_t>(), ElementsAre(25, 35));
  EXPECT_THAT(Floats((*out)[3]), ElementsAre(0.5, 1.5));
}

TEST(Scan9, NothingToScan) {
  const Tensor none(DType::kF32, {0, 2});
  const auto out = RunScan(CountAndSplit({2}), {Tensor::Scalar(7.0f), none, none, kOne});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(Floats((*out)[0]), ElementsAre(7));
  EXPECT_EQ((*out)[1].shape(), (Shape{0, 1}));
}

// As CountAndSplit, each batch item alone.
Loop Scan8(Shape element, const Directions& directions, bool lengths) {
  Loop loop = CountAndSplit(element, directions);
  loop.items = Loop::Items::kApart;
  loop.lengths_input = lengths ? 4 : -1;
  return loop;
}

const std::vector<float> kBatchA = {1, 2, 4, 3, -1, -2, -4, -3};
const std::vector<float> kBatchB = {3, 4, 2, 1, -3, -4, -2, -1};

TEST(Scan8, TwoInBatch) {
  for (const bool known : {false, true}) {
    const auto out =
        RunScan(Scan8({2}, {}, false),
                {F32({2}, {0, 10}), F32({2, 2, 2}, kBatchA), F32({2, 2, 2}, kBatchB), kOne}, known);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].shape(), (Shape{2}));
    EXPECT_THAT(Floats((*out)[0]), ElementsAre(2, 12));
    EXPECT_EQ((*out)[1].shape(), (Shape{2, 2, 1}));
    EXPECT_THAT(Floats((*out)[1]), ElementsAre(1, 4, -1, -4));
    EXPECT_THAT(Floats((*out)[4]), ElementsAre(4, 1, -4, -1));
  }
  const auto reversed =
      RunScan(Scan8({2}, {true, false, false}, false),
              {F32({2}, {0, 0}), F32({2, 2, 2}, kBatchA), F32({2, 2, 2}, kBatchB), kOne});
  EXPECT_THAT(Floats((*reversed)[1]), ElementsAre(4, 1, -4, -1));
  EXPECT_THAT(Floats((*reversed)[3]), ElementsAre(3, 2, -3, -2));
}

TEST(Scan8, MixedSequenceLens) {
  const auto run = [](const Directions& directions, const std::vector<int64_t>& lengths) {
    return RunScan(Scan8({2}, directions, true),
                   {F32({2}, {0, 0}), F32({2, 2, 2}, kBatchA), F32({2, 2, 2}, kBatchB), kOne,
                    I64({static_cast<int64_t>(lengths.size())}, lengths)});
  };
  const auto out = run({}, {1, 2});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(Floats((*out)[0]), ElementsAre(1, 2));
  EXPECT_THAT(Floats((*out)[1]), ElementsAre(1, 0, -1, -4));
  EXPECT_THAT(Floats((*out)[2]), ElementsAre(2, 0, -2, -3));
  EXPECT_THAT(Floats((*out)[3]), ElementsAre(3, 0, -3, -2));
  EXPECT_THAT(Floats((*out)[4]), ElementsAre(4, 0, -4, -1));
  // Backwards from the item's own last element.
  const auto reversed = run({true, true, false}, {1, 2});
  EXPECT_THAT(Floats((*reversed)[1]), ElementsAre(1, 0, -4, -1));
  EXPECT_THAT(Floats((*reversed)[3]), ElementsAre(3, 0, -2, -3));
  // No element at all: the state stays, zeros.
  const auto empty = run({}, {0, 1});
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_THAT(Floats((*empty)[0]), ElementsAre(0, 1));
  EXPECT_THAT(Floats((*empty)[1]), ElementsAre(0, 0, -1, 0));
  const auto all_empty = run({}, {0, 0});
  ASSERT_TRUE(all_empty.ok()) << all_empty.status();
  EXPECT_EQ((*all_empty)[1].shape(), (Shape{2, 2, 1}));
  EXPECT_THAT(Floats((*all_empty)[1]), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(ErrorOf(run({}, {1, 3})), HasSubstr("lengths[1]: 3 is outside [0, 2]"));
  EXPECT_THAT(ErrorOf(run({}, {-1, 2})), HasSubstr("lengths[0]: -1 is outside"));
  EXPECT_THAT(ErrorOf(run({}, {1, 2, 2})), HasSubstr("lengths are [3]; input port 0 is [2]"));
}

TEST(Scan8, NoItems) {
  const Tensor none(DType::kF32, {0, 2, 2});
  const auto out = RunScan(Scan8({2}, {}, false), {Tensor(DType::kF32, {0}), none, none, kOne});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].shape(), (Shape{0}));
  EXPECT_EQ((*out)[1].shape(), (Shape{0, 2, 1}));
}

TEST(Scan8, BatchSizesMustAgree) {
  const Tensor three = F32({3, 1, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor two = F32({2, 1, 2}, {1, 2, 3, 4});
  for (const bool known : {false, true}) {
    EXPECT_THAT(
        ErrorOf(RunScan(Scan8({2}, {}, false), {F32({2}, {0, 0}), two, three, kOne}, known)),
        HasSubstr("has 3 batch items, another input 2"));
  }
  EXPECT_THAT(ErrorOf(RunScan(Scan8({2}, {}, false), {kZero, two, two, kOne})),
              HasSubstr("scalar and has no batch axis"));
}

TEST(ItemLoops, RulesAreChecked) {
  const Tensor x = F32({2, 2, 2}, kBatchA);
  const auto error = [&](void (*change)(Loop&)) {
    Loop loop = Scan8({2}, {}, true);
    change(loop);
    return ErrorOf(RunScan(std::move(loop), {F32({2}, {0, 0}), x, x, kOne, I64({2}, {1, 2})}));
  };
  EXPECT_EQ(error([](Loop&) {}), "");
  EXPECT_THAT(error([](Loop& loop) { loop.items = Loop::Items::kTogether; }),
              HasSubstr("lengths (input 4) need items of their own"));
  EXPECT_THAT(error([](Loop& loop) { loop.lengths_input = 9; }), HasSubstr("lengths are input 9"));
  EXPECT_THAT(error([](Loop& loop) { loop.trip_count_input = 4; }), HasSubstr("no trip count"));
  EXPECT_THAT(error([](Loop& loop) { loop.inputs[1].start = 1; }),
              HasSubstr("sliced over the whole axis"));
  EXPECT_THAT(error([](Loop& loop) {
                loop.items = Loop::Items::kHeld;
                loop.inputs[1].start = -1;
                loop.inputs[1].end = 0;
                loop.inputs[1].stride = -1;
              }),
              HasSubstr("is read in another direction than"));
  EXPECT_THAT(error([](Loop& loop) {
                loop.items = Loop::Items::kHeld;
                loop.outputs[1] = Last(1, 1);
              }),
              HasSubstr("output 1: a last value under lengths must be a state"));
}

}  // namespace
}  // namespace beamwright::ops
