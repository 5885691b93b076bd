// Graphs of many layers whose shapes hang on each other: all of it folds, however deep, and with
// work that grows as the graph does.
#include <algorithm>

#include "gtest/gtest.h"
#include "ops/compile/row_proof.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::Count;
using testing_support::ExpectSame;
using testing_support::GraphBuilder;
using testing_support::RunAsItIs;
using Value = GraphBuilder::Value;

constexpr int64_t kWidth = 4;
constexpr int kDeep = 60;

Value Extent(GraphBuilder& graph, Value value, int64_t axis) {
  return graph.Add("Gather", {graph.Add("ShapeOf", {value}), graph.Ints({axis}), graph.Int(0)});
}

Value Reshape(GraphBuilder& graph, Value data, const std::vector<Value>& extents) {
  const Value pattern = graph.Add("Concat", extents, {{"axis", int64_t{0}}});
  return graph.Add("Reshape", {data, pattern}, {{"special_zero", false}});
}

// Layers as PyTorch writes x.norm().expand_as(x): the shape of what they give follows from the
// expansion alone.
Graph Expanded(int num_layers) {
  GraphBuilder graph;
  Value x = graph.Parameter("x", DType::kF32, {-1, kWidth});
  for (int layer = 0; layer < num_layers; ++layer) {
    const Value norm = graph.Add("ReduceL2", {x, graph.Ints({1})}, {{"keep_dims", true}});
    const Value wide = graph.Add("Broadcast", {norm, graph.Add("ShapeOf", {x})},
                                 {{"mode", std::string("bidirectional")}});
    x = graph.Add("Tanh", {wide});
  }
  graph.Result("y", x);
  return graph.Build();
}

// Layers whose lists follow from each other by arithmetic on extents.
Graph Counted(int num_layers) {
  GraphBuilder graph;
  Value x = graph.Parameter("x", DType::kF32, {-1, 2 * kWidth});
  for (int layer = 0; layer < num_layers; ++layer) {
    const Value half = graph.Add("Divide", {Extent(graph, x, 1), graph.Ints({2})});
    const Value whole = graph.Add("Add", {half, half});
    const Value first =
        graph.Add("Slice", {x, graph.Ints({0}), half, graph.Ints({1}), graph.Ints({1})});
    const Value second = graph.Add("Slice", {x, half, whole, graph.Ints({1}), graph.Ints({1})});
    const Value other = graph.Add("Concat", {second, first}, {{"axis", int64_t{1}}});
    x = graph.Add("Tanh", {Reshape(graph, other, {Extent(graph, x, 0), graph.Ints({-1})})});
  }
  graph.Result("y", x);
  return graph.Build();
}

int g_num_inferred = 0;
InferFunction g_infer = nullptr;

// The operators, of which Tanh counts how often it is inferred.
OperatorSet CountingOperators() {
  std::vector<Operator> all = Operators().all();
  const auto tanh =
      std::find_if(all.begin(), all.end(), [](const Operator& op) { return op.name == "Tanh"; });
  g_infer = tanh->infer;
  g_num_inferred = 0;
  tanh->infer = [](const Node& node, absl::Span<const InputInfo> inputs,
                   std::vector<ValueInfo>& outputs) {
    ++g_num_inferred;
    return g_infer(node, inputs, outputs);
  };
  return OperatorSet(std::move(all));
}

Graph Folded(Graph graph, const OperatorSet& operators, const std::vector<int>& row_axes = {}) {
  absl::StatusOr<GraphInfo> info = InferGraph(graph, operators);
  EXPECT_TRUE(info.ok()) << info.status();
  const absl::Status status = FoldShapes(graph, *info, {operators, row_axes}).status();
  EXPECT_TRUE(status.ok()) << status;
  return graph;
}

using Build = Graph (*)(int num_layers);

void ExpectFoldsInLinearWork(Build build, const Shape& shape) {
  const Graph deep = build(kDeep);
  const OperatorSet operators = CountingOperators();
  const Graph folded = Folded(deep, operators);
  // What inference knows of the input's own shape stays as nodes, which nothing runs.
  EXPECT_LE(Count(folded, "ShapeOf"), 1);
  EXPECT_LE(g_num_inferred, 8 * kDeep);
  ExpectSame(deep, folded, shape);

  Graph graph = folded;
  const absl::StatusOr<GraphInfo> info = InferGraph(graph, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  const RowProof proof = ProveRowsApart(graph, *info, Operators());
  EXPECT_TRUE(proof.separable) << proof.reason;
}

TEST(DeepGraphsTest, LayersThatExpandNormsFoldInWorkThatGrowsWithTheirNumber) {
  ExpectFoldsInLinearWork(&Expanded, {3, kWidth});
}

TEST(DeepGraphsTest, LayersThatCountExtentsFoldInWorkThatGrowsWithTheirNumber) {
  ExpectFoldsInLinearWork(&Counted, {3, 2 * kWidth});
}

// Each pass opens what reads what was opened before: there are as many passes as that takes.
TEST(DeepGraphsTest, ABatchOfOneIsOpenedThroughAllLayers) {
  GraphBuilder builder;
  Value x = builder.Parameter("x", DType::kF32, {1, kWidth});
  for (int layer = 0; layer < kDeep; ++layer) {
    const Value heads = builder.Add("Reshape", {x, builder.Ints({1, 2, 2})});
    x = builder.Add("Tanh", {builder.Add("Reshape", {heads, builder.Ints({1, kWidth})})});
  }
  builder.Result("y", x);
  const Graph built = builder.Build();
  const Graph folded = Folded(built, Operators(), {0});
  ExpectSame(built, folded, {1, kWidth});
  const auto many = RunAsItIs(folded, {Tensor::Zeros(DType::kF32, {3, kWidth})});
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ(many->front().shape(), Shape({3, kWidth}));
}

}  // namespace
}  // namespace beamwright::ops
