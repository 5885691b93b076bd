// What a pass that joins nodes made of a graph, held against the graph itself.
#ifndef BEAMWRIGHT_TESTS_OPS_PASSES_JOINED_GRAPH_H_
#define BEAMWRIGHT_TESTS_OPS_PASSES_JOINED_GRAPH_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {

int64_t CountOf(const Graph& graph, absl::string_view op);

// The graph that `pass` makes of `graph`; a test failure unless it gives for `inputs`, with any
// vector instructions and one thread or two, the bits that `graph` gives.
Graph JoinedWithSameBits(Graph graph, const std::vector<Tensor>& inputs, Pass pass);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TESTS_OPS_PASSES_JOINED_GRAPH_H_
