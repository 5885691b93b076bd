// A graph as shape folding leaves it, with what is inferred of it.
#ifndef BEAMWRIGHT_TESTS_OPS_PASSES_FOLDED_GRAPH_H_
#define BEAMWRIGHT_TESTS_OPS_PASSES_FOLDED_GRAPH_H_

#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ops/graph/inference.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {

struct FoldedGraph {
  Graph graph;
  GraphInfo info;
};

// row_axes: as FoldShapes takes them. A test failure if the graph cannot be inferred or folded.
inline FoldedGraph FoldGraph(Graph graph, const std::vector<int>& row_axes = {}) {
  absl::StatusOr<GraphInfo> info = InferGraph(graph, Operators());
  EXPECT_TRUE(info.ok()) << info.status();
  const absl::Status status = FoldShapes(graph, *info, {Operators(), row_axes}).status();
  EXPECT_TRUE(status.ok()) << status;
  return {std::move(graph), *std::move(info)};
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TESTS_OPS_PASSES_FOLDED_GRAPH_H_
