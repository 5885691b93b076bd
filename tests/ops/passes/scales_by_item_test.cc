// What a graph in 8 bits gives for many items at once is, item by item and bit for bit, what it
// gives for each of them alone, computed as the file says: scales over the whole tensor.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ops/loop/loop_body.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;

constexpr int64_t kSize = 6;

Tensor Weights(int64_t columns) {
  Tensor weights(DType::kI8, {kSize, columns});
  for (int64_t i = 0; i < weights.num_elements(); ++i) {
    weights.mutable_data<int8_t>()[i] = static_cast<int8_t>(i * 37 % 255 - 127);
  }
  return weights;
}

// A layer as dynamic quantisation writes it.
ValueId QuantisedLayer(GraphBuilder& graph, ValueId x, int64_t columns, const std::string& name) {
  const ValueId q = graph.Add("DynamicQuantizeLinear", {x}, {}, name, 3);
  const ValueId zero{q.node, 2};
  const ValueId sums = graph.Add("MatMulInteger", {q, graph.Constant(Weights(columns)), zero});
  const ValueId product = graph.Add("Convert", {sums}, {{"destination_type", "f32"}});
  const ValueId scale = graph.Add("Multiply", {{q.node, 1}, graph.Constant(Tensor::Scalar(0.01f))});
  return graph.Add("Multiply", {product, scale});
}

Tensor Noise(Shape shape) {
  std::mt19937 engine(1);
  Tensor result(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    // Items of very different ranges.
    const auto item = static_cast<float>(i / (result.num_elements() / 4) + 1);
    result.mutable_data<float>()[i] =
        std::uniform_real_distribution<float>(-1, 2)(engine) * item * item;
  }
  return result;
}

Tensor RunOn(const Model& model, const Tensor& x) {
  std::vector<Tensor> outputs;
  const absl::Status status = model.Run({}, {&x, 1}, outputs);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? outputs[0] : Tensor();
}

// Item `item` of [4, ...], with the axis.
Tensor ItemOf(const Tensor& tensor, int64_t item) {
  Shape shape(tensor.shape().begin(), tensor.shape().end());
  shape[0] = 1;
  Tensor result(tensor.dtype(), shape);
  const size_t bytes = static_cast<size_t>(result.num_bytes());
  std::copy_n(tensor.bytes() + static_cast<size_t>(item) * bytes, bytes, result.mutable_bytes());
  return result;
}

// `graph` reads x [items, time, kSize] and gives [items, ...].
void ExpectItemsAsAlone(const Graph& graph) {
  RowProof proof;
  const auto together = Model::Compile(graph, Precision::kF32, RowInputs{0, -1}, proof);
  ASSERT_TRUE(together.ok()) << together.status();
  EXPECT_TRUE(proof.separable) << proof.reason;
  const auto alone = Model::Compile(graph);
  ASSERT_TRUE(alone.ok()) << alone.status();
  const Tensor x = Noise({4, 5, kSize});
  const Tensor y = RunOn(**together, x);
  for (int64_t item = 0; item < 4; ++item) {
    const Tensor expected = RunOn(**alone, ItemOf(x, item));
    const Tensor found = ItemOf(y, item);
    ASSERT_EQ(found.shape(), expected.shape());
    EXPECT_EQ(
        std::memcmp(found.bytes(), expected.bytes(), static_cast<size_t>(expected.num_bytes())), 0)
        << "item " << item;
  }
  // A whole file keeps its own meaning.
  const Tensor whole = RunOn(**alone, x);
  EXPECT_NE(std::memcmp(whole.bytes(), y.bytes(), static_cast<size_t>(y.num_bytes())), 0);
}

TEST(ItemScalesTest, LayersOneBehindTheOther) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1, kSize});
  const auto hidden = graph.Add("Tanh", {QuantisedLayer(graph, x, kSize, "first")});
  graph.Result("y", QuantisedLayer(graph, hidden, 3, "second"));
  ExpectItemsAsAlone(graph.Build());
}

// Energies of attention: a product with a vector, whose scale belongs to an operand of more axes.
TEST(ItemScalesTest, AProductWithAVector) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1, kSize});
  const ValueId q = graph.Add("DynamicQuantizeLinear", {x}, {}, "energies", 3);
  const Tensor vector = Tensor::Of<int8_t>({kSize}, std::vector<int8_t>{3, -7, 100, 0, -128, 55});
  const ValueId sums = graph.Add(
      "MatMulInteger",
      {q, graph.Constant(vector), {q.node, 2}, graph.Constant(Tensor::Scalar(int8_t{0}))});
  const ValueId product = graph.Add("Convert", {sums}, {{"destination_type", "f32"}});
  const ValueId scale = graph.Add("Multiply", {{q.node, 1}, graph.Constant(Tensor::Scalar(0.01f))});
  const ValueId energies = graph.Add("Multiply", {product, scale});
  graph.Result("y", graph.Add("SoftMax", {energies}, {{"axis", int64_t{1}}}));
  ExpectItemsAsAlone(graph.Build());
}

TEST(ItemScalesTest, TimeFirst) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1, kSize});
  const auto order = graph.Ints({1, 0, 2});
  const auto turned = graph.Add("Transpose", {x, order});
  graph.Result("y", graph.Add("Transpose", {QuantisedLayer(graph, turned, 3, "layer"), order}));
  ExpectItemsAsAlone(graph.Build());
}

// Each item is five rows of the product.
TEST(ItemScalesTest, AnItemOfSeveralRows) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, 5, kSize});
  const auto reshape = [&graph](ValueId value, std::vector<int64_t> shape) {
    return graph.Add("Reshape", {value, graph.Ints(std::move(shape))}, {{"special_zero", false}});
  };
  const ValueId product = QuantisedLayer(graph, reshape(x, {-1, kSize}), 3, "layer");
  graph.Result("y", reshape(product, {-1, 5, 3}));
  ExpectItemsAsAlone(graph.Build());
}

// A scale of a constant, here one that a loop reads, has no items and keeps its shape.
TEST(ItemScalesTest, AConstantKeepsItsScale) {
  GraphBuilder body;
  const auto slice = body.Parameter("slice", DType::kF32, {-1, kSize});
  const auto scale = body.Parameter("scale", DType::kF32, {});
  body.Result("next", body.Add("Multiply", {slice, scale}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Sliced(0, 0, 1), testing_support::Invariant(1, 1)};
  loop.inputs[0].drop_axis = true;
  loop.outputs = {testing_support::Stacked(0, 0, 1)};
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1, kSize});
  const ValueId constant =
      graph.Add("DynamicQuantizeLinear", {graph.Constant(Noise({4, kSize}))}, {}, "constant", 3);
  const auto scaled = graph.Loop({x, {constant.node, 1}}, std::move(loop), 1);
  graph.Result("y", QuantisedLayer(graph, scaled, 3, "layer"));
  ExpectItemsAsAlone(graph.Build());
}

TEST(ItemScalesTest, AStateInALoop) {
  GraphBuilder body;
  const auto slice = body.Parameter("slice", DType::kF32, {-1, kSize});
  const auto state = body.Parameter("state", DType::kF32, {-1, kSize});
  const auto sum = body.Add("Add", {slice, QuantisedLayer(body, state, kSize, "state product")});
  body.Result("next", body.Add("Tanh", {sum}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Sliced(0, 0, 1), testing_support::Carried(1, 1, 0)};
  loop.inputs[0].drop_axis = true;
  LoopOutput last;
  last.output = 0;
  last.body_result = 0;
  loop.outputs = {last};
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1, kSize});
  const auto first = graph.Add("Gather", {x, graph.Int(0), graph.Int(1)});
  graph.Result("y", graph.Loop({x, first}, std::move(loop), 1));
  ExpectItemsAsAlone(graph.Build());
}

// What cannot be proven keeps the file's meaning, and says why.
TEST(ItemScalesTest, ItemsThatMixStayAsTheyAre) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1, kSize});
  const auto most = graph.Add("ReduceMax", {x, graph.Ints({0})}, {{"keep_dims", true}}, "loudest");
  graph.Result("y", QuantisedLayer(graph, graph.Add("Subtract", {x, most}), 3, "layer"));
  Graph built = graph.Build();
  RowProof proof;
  const auto model = Model::Compile(built, Precision::kF32, RowInputs{0, -1}, proof);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE(proof.separable);
  EXPECT_EQ(proof.reason, "rows of ReduceMax 'loudest' cannot be separated");
  const auto alone = Model::Compile(built);
  const Tensor input = Noise({4, 5, kSize});
  const Tensor expected = RunOn(**alone, input);
  EXPECT_EQ(std::memcmp(RunOn(**model, input).bytes(), expected.bytes(),
                        static_cast<size_t>(expected.num_bytes())),
            0);
}

// A body that reads a token, its first state and perhaps the iteration's number.
Loop StepOf(GraphBuilder& body, bool counts = false) {
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Sliced(0, 0, 0), testing_support::Carried(1, 1, 0)};
  loop.inputs[0].drop_axis = true;
  loop.inputs[0].axis = 1;
  if (counts) {
    loop.inputs.push_back(testing_support::Iteration(2));
  }
  return loop;
}

// A step's rows are its items.
TEST(ItemScalesTest, RowsOfAStep) {
  GraphBuilder body;
  const auto token = body.Parameter("token", DType::kF32, {-1, kSize});
  const auto state = body.Parameter("state", DType::kF32, {-1, kSize});
  const auto sum = body.Add("Add", {token, QuantisedLayer(body, state, kSize, "layer")});
  body.Result("next", sum);
  Loop loop = StepOf(body);
  const auto info = InferGraph(loop.body, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  const auto plan_of = [&](const Loop& of) {
    const auto compiled = LoopBody::Compile(std::make_shared<Loop>(of), *info, Operators());
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    return (*compiled)->plan();
  };
  EXPECT_FALSE(plan_of(loop).separable);
  TakeScalesByRow(*info, Operators(), loop);
  EXPECT_TRUE(plan_of(loop).separable) << plan_of(loop).reason;
}

// The scale of the iteration's number is one for all rows. As long as its item axis is unknown it
// has the three axes of the number, so that rows of x appear to be on axis 1; they are on axis 0. A
// scale for each index of axis 1 would be one for each column.
TEST(ItemScalesTest, RowsThatMoveWithAnotherScaleKeepOneScale) {
  GraphBuilder body;
  const auto token = body.Parameter("token", DType::kF32, {-1, kSize});
  const auto state = body.Parameter("state", DType::kF32, {-1, kSize});
  const auto number = body.Parameter("number", DType::kI64, {});
  const auto reshape = [&body](ValueId value, std::vector<int64_t> shape) {
    return body.Add("Reshape", {value, body.Ints(std::move(shape))}, {{"special_zero", false}});
  };
  const auto as_float = [&body](ValueId value) {
    return body.Add("Convert", {value}, {{"destination_type", "f32"}});
  };
  const ValueId of_number =
      body.Add("DynamicQuantizeLinear", {as_float(reshape(number, {1, 1, 1}))}, {}, "of number", 3);
  const ValueId x = body.Add("Multiply", {state, {of_number.node, 1}});
  const ValueId of_x = body.Add("DynamicQuantizeLinear", {x}, {}, "of x", 3);
  const ValueId values = body.Add("Multiply", {as_float(of_x), {of_x.node, 1}});
  body.Result("next", body.Add("Add", {token, reshape(values, {-1, kSize})}));
  Loop loop = StepOf(body, /*counts=*/true);
  const auto info = InferGraph(loop.body, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  TakeScalesByRow(*info, Operators(), loop);
  for (const Node& node : loop.body.nodes) {
    EXPECT_FALSE(node.attributes.Has("item_axis")) << node.name;
  }
}

}  // namespace
}  // namespace beamwright::ops
