#include <gtest/gtest.h>

#include "ops/graph/trace.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;

Tensor Zeros(const Shape& shape) { return Tensor::Zeros(DType::kF32, shape); }

TEST(CountWeights, LeavesOutVectorsAndTablesOfWhichRowsAreRead) {
  GraphBuilder graph;
  const ValueId ids = graph.Parameter("ids", DType::kI64, {3});
  const ValueId axis = graph.Int(0);
  const ValueId table = graph.Constant(Zeros({10, 4}));
  const ValueId rows = graph.Add("Gather", {table, ids, axis});
  const ValueId product = graph.Add("MatMul", {rows, graph.Constant(Zeros({4, 5}))});
  graph.Result("y", graph.Add("Add", {product, graph.Constant(Zeros({5}))}));
  EXPECT_EQ(CountWeights(graph.Build()), 4 * 5);
}

// A table that is multiplied, too, as by tied weights.
TEST(CountWeights, CountsTablesThatAreMultiplied) {
  GraphBuilder graph;
  const ValueId ids = graph.Parameter("ids", DType::kI64, {3});
  const ValueId axis = graph.Int(0);
  const ValueId table = graph.Constant(Zeros({10, 4}));
  const ValueId rows = graph.Add("Gather", {table, ids, axis});
  graph.Result("y", graph.Add("MatMul", {rows, table}, {{"transpose_b", true}}));
  EXPECT_EQ(CountWeights(graph.Build()), 10 * 4);
}

}  // namespace
}  // namespace beamwright::ops
