// Transposes next to slices and joins of layers go, and the numbers stay.

#include <gtest/gtest.h>

#include "ops/passes/passes.h"
#include "tests/ops/passes/joined_graph.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;

Tensor Counted(Shape shape) {
  Tensor result(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    result.mutable_data<float>()[i] = static_cast<float>(i);
  }
  return result;
}

ValueId Layer(GraphBuilder& graph, ValueId states, std::vector<int64_t> first,
              std::vector<int64_t> last, std::vector<int64_t> axes) {
  const std::vector<int64_t> steps(axes.size(), 1);
  return graph.Add("Slice", {states, graph.Ints(std::move(first)), graph.Ints(std::move(last)),
                             graph.Ints(steps), graph.Ints(std::move(axes))});
}

// States of three layers, as a served encoder reads and writes them.
TEST(LayerTransposesTest, StatesOfLayers) {
  for (const int64_t axis : {int64_t{0}, int64_t{-3}}) {
    GraphBuilder graph;
    const auto states = graph.Parameter("states", DType::kF32, {-1, 3, 4});
    const auto order = graph.Ints({1, 0, 2});
    const auto layers = graph.Add("Transpose", {states, order});
    std::vector<ValueId> next;
    for (int64_t layer = 0; layer < 3; ++layer) {
      const auto own = Layer(graph, layers, {layer}, {layer + 1}, {axis});
      next.push_back(graph.Add("Tanh", {own}));
      graph.Result("layer" + std::to_string(layer), own);
    }
    const auto joined = graph.Add("Concat", next, {{"axis", axis}});
    graph.Result("next", graph.Add("Transpose", {joined, order}));
    for (const int64_t rows : {1, 5}) {
      Graph built = graph.Build();
      const Graph changed =
          JoinedWithSameBits(built, {Counted({rows, 3, 4})}, &DropLayerTransposes);
      EXPECT_EQ(CountOf(changed, "Transpose"), 0);
      graph = GraphBuilder(std::move(built));
    }
  }
}

// Four axes in any order, two of which are sliced.
TEST(LayerTransposesTest, OtherOrders) {
  const auto run = [](std::vector<int64_t> order, int64_t transposes) {
    GraphBuilder graph;
    const auto x = graph.Parameter("x", DType::kF32, {2, -1, 3, 4});
    const auto turned = graph.Add("Transpose", {x, graph.Ints(order)});
    std::vector<int64_t> axes;  // where the first and the third went
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i] == 0 || order[i] == 2) {
        axes.push_back(static_cast<int64_t>(i));
      }
    }
    graph.Result("y", Layer(graph, turned, {1, 1}, {2, 2}, axes));
    const Graph changed =
        JoinedWithSameBits(graph.Build(), {Counted({2, 5, 3, 4})}, &DropLayerTransposes);
    EXPECT_EQ(CountOf(changed, "Transpose"), transposes);
  };
  run({0, 1, 2, 3}, 0);
  run({2, 1, 0, 3}, 0);
  run({1, 3, 2, 0}, 0);
  run({3, 1, 2, 0}, 1);  // the axes that stay change places
}

// Parts that are not of one layer, and a Concat on an axis that stays long.
TEST(LayerTransposesTest, PartsOfSeveralLayersAreTransposed) {
  GraphBuilder graph;
  const auto states = graph.Parameter("states", DType::kF32, {-1, 3, 4});
  const auto order = graph.Ints({1, 0, 2});
  const auto layers = graph.Add("Transpose", {states, order});
  const auto two = Layer(graph, layers, {0}, {2}, {0});
  const auto one = Layer(graph, layers, {2}, {3}, {0});
  graph.Result("two", two);
  graph.Result("all", graph.Add("Transpose",
                                {graph.Add("Concat", {one, two}, {{"axis", int64_t{0}}}), order}));
  const Graph changed =
      JoinedWithSameBits(graph.Build(), {Counted({5, 3, 4})}, &DropLayerTransposes);
  EXPECT_EQ(CountOf(changed, "Transpose"), 2);
}

}  // namespace
}  // namespace beamwright::ops
