// Joined products in 8 bits give, bit for bit, what their nodes give one by one.

#include <gtest/gtest.h>

#include <random>

#include "ops/passes/passes.h"
#include "tests/ops/passes/joined_graph.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;

class Draw {
 public:
  explicit Draw(uint32_t seed) : engine_(seed) {}
  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  Tensor Floats(Shape shape) {
    Tensor result(DType::kF32, std::move(shape));
    for (int64_t i = 0; i < result.num_elements(); ++i) {
      result.mutable_data<float>()[i] = std::normal_distribution<float>(0.1f, 2)(engine_);
    }
    return result;
  }
  Tensor Bytes(DType dtype, Shape shape) {
    Tensor result(dtype, std::move(shape));
    for (int64_t i = 0; i < result.num_elements(); ++i) {
      *(result.mutable_bytes() + i) = static_cast<std::byte>(Int(0, 255));
    }
    return result;
  }

 private:
  std::mt19937 engine_;
};

struct Layer {
  int64_t depth = 0;
  int64_t columns = 0;
  DType weights = DType::kI8;
  bool zero = true;         // the weights have a zero point
  bool per_column = false;  // and scales, one a column
};

// MatMulInteger of quantised `q` (node), converted and scaled.
ValueId Scaled(GraphBuilder& graph, ValueId q, const Layer& layer, Draw& draw) {
  const Shape of_columns = layer.per_column ? Shape{layer.columns} : Shape{};
  std::vector<ValueId> inputs = {
      q, graph.Constant(draw.Bytes(layer.weights, {layer.depth, layer.columns})), {q.node, 2}};
  if (layer.zero) {
    inputs.push_back(graph.Constant(draw.Bytes(layer.weights, of_columns)));
  }
  const ValueId sums = graph.Add("MatMulInteger", inputs);
  const ValueId converted = graph.Add("Convert", {sums}, {{"destination_type", "f32"}});
  const ValueId b_scale = graph.Constant(draw.Floats(of_columns));
  const ValueId scale = graph.Add("Multiply", {{q.node, 1}, b_scale});
  return graph.Add("Multiply", draw.Int(0, 1) == 0 ? std::vector<ValueId>{converted, scale}
                                                   : std::vector<ValueId>{scale, converted});
}

ValueId Quantized(GraphBuilder& graph, ValueId x, bool by_item) {
  return by_item ? graph.Add("DynamicQuantizeLinear", {x}, {{"item_axis", int64_t{1}}}, "", 3)
                 : graph.Add("DynamicQuantizeLinear", {x}, {}, "", 3);
}

// The joined graph, which must have these numbers of joined and of other products, gives the same
// bits.
void ExpectSameBits(const Graph& graph, const std::vector<Tensor>& inputs, int64_t products,
                    int64_t left_over = 0) {
  const Graph joined = JoinedWithSameBits(graph, inputs, &JoinScaledProducts);
  EXPECT_EQ(CountOf(joined, "ScaledIntegerProduct"), products);
  EXPECT_EQ(CountOf(joined, "MatMulInteger"), left_over);
  EXPECT_EQ(CountOf(joined, "Convert"), left_over);
}

// A recurrent layer and a feed-forward one as icefall's files have them: two separate products
// inputs are added up, one has no bias, one is added to what came before it.
TEST(ScaledProductsTest, LayersOfAnEncoder) {
  Draw draw(1);
  for (int trial = 0; trial < 40; ++trial) {
    const bool by_item = trial % 2 == 0;
    const int64_t rows = trial % 4 == 0 ? draw.Int(1, 64) : draw.Int(1, 6);
    const int64_t width = draw.Int(1, 70), cells = draw.Int(1, 90), time = draw.Int(1, 2);
    const auto layer = [&](int64_t depth, int64_t columns) {
      return Layer{depth, columns, draw.Int(0, 1) == 0 ? DType::kI8 : DType::kU8,
                   draw.Int(0, 2) > 0, draw.Int(0, 1) == 0};
    };
    GraphBuilder graph;
    const ValueId x = graph.Parameter("x", DType::kF32, {-1, -1, width});
    const ValueId h = graph.Parameter("h", DType::kF32, {-1, -1, width});
    const auto linear = [&](ValueId q, int64_t depth, int64_t columns) {
      const ValueId y = Scaled(graph, q, layer(depth, columns), draw);
      const ValueId bias = graph.Constant(draw.Floats({columns}));
      return draw.Int(0, 1) == 0 ? graph.Add("Add", {y, bias}) : graph.Add("Add", {bias, y});
    };
    const ValueId q = Quantized(graph, x, by_item);
    const ValueId gates = graph.Add(
        "Add", {linear(q, width, cells), linear(Quantized(graph, h, by_item), width, cells)});
    const ValueId hidden = graph.Add("Tanh", {gates});
    const ValueId said =
        Scaled(graph, Quantized(graph, hidden, by_item), layer(cells, width), draw);
    const ValueId y = graph.Add("Add", {x, said});
    // A second reader of x's quantised form, whose result two others read.
    const ValueId twice = linear(q, width, 5);
    graph.Result("y", y);
    graph.Result("said", graph.Add("Tanh", {twice}));
    graph.Result("twice", graph.Add("Multiply", {twice, twice}));
    ExpectSameBits(graph.Build(),
                   {draw.Floats({time, rows, width}), draw.Floats({time, rows, width})}, 4);
  }
}

// What is added may be smaller than the product, or larger.
TEST(ScaledProductsTest, AddendsBroadcast) {
  Draw draw(2);
  const int64_t depth = 9, columns = 40;
  for (const Shape& addend : {Shape{1, 1, 1}, Shape{3, 1, columns}, Shape{4, 3, 5, columns},
                              Shape{1, 5, 1}, Shape{3, 5, columns}}) {
    GraphBuilder graph;
    const ValueId x = graph.Parameter("x", DType::kF32, {-1, -1, depth});
    const ValueId other = graph.Parameter("other", DType::kF32, Shape(addend.size(), -1));
    const ValueId product = Scaled(graph, Quantized(graph, x, true), {depth, columns}, draw);
    graph.Result("y", graph.Add("Add", {product, other}));
    ExpectSameBits(graph.Build(), {draw.Floats({3, 5, depth}), draw.Floats(addend)}, 1);
  }
}

// Sums that something else reads, a matrix that is not known, scales that do not go with rows: left
// as they are.
TEST(ScaledProductsTest, OthersStayAsTheyAre) {
  Draw draw(3);
  const int64_t depth = 8, columns = 12;
  const auto build = [&](int which) {
    GraphBuilder graph;
    const ValueId x = graph.Parameter("x", DType::kF32, {-1, depth});
    const ValueId q = Quantized(graph, x, false);
    const ValueId matrix =
        which == 0 ? graph.Add("DynamicQuantizeLinear",
                               {graph.Parameter("b", DType::kF32, {depth, columns})}, {}, "", 3)
                   : graph.Constant(draw.Bytes(DType::kI8, {depth, columns}));
    const ValueId sums = graph.Add("MatMulInteger", {q, matrix, {q.node, 2}});
    const ValueId converted = graph.Add("Convert", {sums}, {{"destination_type", "f32"}});
    const ValueId of_rows = graph.Constant(draw.Floats(which == 1 ? Shape{5, columns} : Shape{}));
    const ValueId scale = graph.Add("Multiply", {{q.node, 1}, of_rows});
    graph.Result("y", graph.Add("Multiply", {converted, scale}));
    if (which == 2) {
      graph.Result("sums", sums);
    }
    return graph.Build();
  };
  const Tensor x = draw.Floats({5, depth});
  ExpectSameBits(build(0), {x, draw.Floats({depth, columns})}, 0, 1);
  ExpectSameBits(build(1), {x}, 0, 1);
  ExpectSameBits(build(2), {x}, 0, 1);
  ExpectSameBits(build(3), {x}, 1);
}

}  // namespace
}  // namespace beamwright::ops
