// Axes that a body takes from slices and gives to parts go, wherever they stand, and the numbers
// stay; a body that reads them otherwise stays as it is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "ops/loop/model.h"
#include "ops/passes/passes.h"
#include "tests/ops/passes/joined_graph.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing::HasSubstr;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Joined;
using testing_support::Last;
using testing_support::Sliced;

Tensor Counted(Shape shape) {
  Tensor result(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    result.mutable_data<float>()[i] = 0.01f * static_cast<float>(i * i % 97);
  }
  return result;
}

const Loop& LoopOf(const Graph& graph) {
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
            return node.loop != nullptr;
          })->loop;
}

struct Form {
  int64_t axis = 1;      // of the slice, of x [3, 4, 5]
  int64_t squeezed = 1;  // as the body's Squeeze and Unsqueeze write it
  bool backward = false;
  bool reversed = false;
  int64_t part_size = 1;
  bool reads_slice = false;   // the body uses the slice with its axis as well
  bool also_last = false;     // the part's last value is an output, too
  bool given_before = false;  // the part is the state of the iteration before
};

// h = tanh(x[t] + 0.5 * h), y = all h, and the last one.
Graph MakeGraph(const Form& form) {
  Shape all = {3, 4, 5};
  Shape state = all;
  state.erase(state.begin() + form.axis);
  Shape slice = all;
  slice[static_cast<size_t>(form.axis)] = form.part_size;
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, slice);
  const auto h = body.Parameter("h", DType::kF32, state);
  auto own = x;
  if (form.part_size == 1) {
    own = body.Add("Squeeze", {x, body.Ints({form.squeezed})});
  } else {
    own = body.Add("ReduceMax", {x, body.Ints({form.squeezed})}, {{"keep_dims", false}});
  }
  const auto half = body.Add("Multiply", {h, body.Constant(Tensor::Scalar(0.5f))});
  const auto next = body.Add("Tanh", {body.Add("Add", {own, half})});
  auto part = body.Add("Unsqueeze", {form.given_before ? h : next, body.Ints({form.squeezed})});
  if (form.reads_slice) {
    part = body.Add("Add", {part, x});
  }
  body.Result("h_next", next);
  body.Result("y", part);
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {form.backward ? Sliced(0, 0, form.axis, -1, 0, -1, form.part_size)
                               : Sliced(0, 0, form.axis, 0, -1, 1, form.part_size),
                 Carried(1, 1, 0)};
  loop.outputs = {Joined(0, 1, form.axis, form.reversed), Last(1, form.also_last ? 1 : 0)};
  GraphBuilder graph;
  const auto in = graph.Parameter("in", DType::kF32, all);
  const auto h0 = graph.Parameter("h0", DType::kF32, state);
  const auto outputs = graph.Loop({in, h0}, loop, 2);
  graph.Result("out", outputs);
  graph.Result("last", {outputs.node, 1});
  return graph.Build();
}

// The loop of the changed graph; numbers are compared before and after.
Loop Changed(const Form& form) {
  Graph graph = MakeGraph(form);
  Shape state = {3, 4, 5};
  state.erase(state.begin() + form.axis);
  return LoopOf(JoinedWithSameBits(graph, {Counted({3, 4, 5}), Counted(state)}, &DropPartAxes));
}

TEST(PartAxes, GoWhereverTheyStand) {
  for (const int64_t axis : {0, 1, 2}) {
    for (const bool from_end : {false, true}) {
      for (const bool backward : {false, true}) {
        for (const bool given_before : {false, true}) {
          Form form;
          form.axis = axis;
          form.squeezed = from_end ? axis - 3 : axis;
          form.backward = backward;
          form.reversed = backward;
          form.given_before = given_before;
          const Loop loop = Changed(form);
          EXPECT_EQ(CountOf(loop.body, "Squeeze") + CountOf(loop.body, "Unsqueeze"), 0);
          EXPECT_TRUE(loop.inputs[0].drop_axis);
          EXPECT_EQ(loop.outputs[0].kind, LoopOutput::Kind::kStacked);
        }
      }
    }
  }
}

TEST(PartAxes, StayWhereTheBodyReadsThem) {
  Form both;
  both.reads_slice = true;
  EXPECT_FALSE(Changed(both).inputs[0].drop_axis);
  EXPECT_EQ(CountOf(Changed(both).body, "Squeeze"), 1);
  Form last;
  last.also_last = true;
  EXPECT_EQ(Changed(last).outputs[0].kind, LoopOutput::Kind::kConcatenated);
  EXPECT_TRUE(Changed(last).inputs[0].drop_axis);
  Form wide;
  wide.part_size = 2;
  EXPECT_FALSE(Changed(wide).inputs[0].drop_axis);
}

// The body squeezes another axis of 1 than the sliced one.
TEST(PartAxes, StayWhereAnotherAxisGoes) {
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {1, 1, 5});
  const auto other = body.Add("Squeeze", {x, body.Ints({1})});
  body.Result("y", body.Add("Unsqueeze", {body.Add("Tanh", {other}), body.Ints({1})}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 0)};
  loop.outputs = {Joined(0, 0, 0)};
  GraphBuilder graph;
  graph.Result("out", graph.Loop({graph.Parameter("in", DType::kF32, {4, 1, 5})}, loop, 1));
  Graph built = graph.Build();
  const Loop after = LoopOf(JoinedWithSameBits(built, {Counted({4, 1, 5})}, &DropPartAxes));
  EXPECT_FALSE(after.inputs[0].drop_axis);
  EXPECT_EQ(after.outputs[0].kind, LoopOutput::Kind::kConcatenated);
}

// What a Scan makes of an empty axis, a TensorIterator refuses, whatever its body looks like: also
// one whose products are computed before the loop, which slices them without the axis.
TEST(PartAxes, AnEmptyAxisIsStillAnError) {
  for (const bool multiplies : {false, true}) {
    GraphBuilder body;
    const auto x = body.Parameter("x", DType::kF32, {-1, 1, 2});
    auto own = body.Add("Squeeze", {x, body.Ints({1})});
    if (multiplies) {
      own = body.Add("MatMul", {own, body.Constant(Counted({2, 2}))});
    }
    own = body.Add("Tanh", {own});
    body.Result("y", body.Add("Unsqueeze", {own, body.Ints({1})}));
    Loop loop;
    loop.body = body.Build();
    loop.inputs = {Sliced(0, 0, 1)};
    loop.outputs = {Joined(0, 0, 1)};
    GraphBuilder graph;
    graph.Result("out", graph.Loop({graph.Parameter("in", DType::kF32, {-1, -1, 2})}, loop, 1));
    const auto model = Model::Compile(graph.Build(), Precision::kF32);
    ASSERT_TRUE(model.ok()) << model.status();
    std::vector<Tensor> outputs;
    const auto run = [&](Shape shape) {
      return (*model)->Run({}, std::vector<Tensor>{Counted(std::move(shape))}, outputs);
    };
    EXPECT_THAT(run({3, 0, 2}).message(), HasSubstr("the sliced axis is empty")) << multiplies;
    EXPECT_TRUE(run({3, 1, 2}).ok());
  }
}

}  // namespace
}  // namespace beamwright::ops
