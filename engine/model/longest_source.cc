#include "engine/model/longest_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ops/graph/inference.h"
#include "ops/loop/operators.h"

namespace beamwright::engine {
namespace {

using ops::Graph;
using ops::Node;
using ops::PartialShape;

constexpr int64_t kShortest = 8;
constexpr int64_t kLongest = 8192;
// Positions of a source of floats that an encoder may join to one of its table.
constexpr int64_t kMostJoined = 16;

// The extents of the constants that the graph gathers from or slices, in ascending order.
std::set<int64_t> TableExtents(const Graph& graph) {
  std::set<int64_t> extents;
  for (const Node& node : graph.nodes) {
    if (node.op != "Gather" && node.op != "Slice" && node.op != "StridedSlice") {
      continue;
    }
    const Node* table = &graph.node(node.inputs[0].node);
    if (table->op == "Convert") {
      table = &graph.node(table->inputs[0].node);
    }
    if (table->op != "Constant" || !table->constant.has_value()) {
      continue;
    }
    for (const int64_t extent : table->constant.shape()) {
      if (extent >= kShortest && extent <= kLongest) {
        extents.insert(extent);
      }
    }
  }
  return extents;
}

// Whether inference takes the graph with one source of this length.
bool Takes(Graph graph, int parameter, int length_axis, int64_t length) {
  Node& source = graph.node(graph.parameters[static_cast<size_t>(parameter)]);
  ops::Shape dims = source.outputs[0].shape.dims();
  dims[0] = dims[0] == PartialShape::kDynamic ? 1 : dims[0];
  dims[static_cast<size_t>(length_axis)] = length;
  source.outputs[0].shape = PartialShape(std::move(dims));
  return ops::InferGraph(graph, ops::Operators()).ok();
}

}  // namespace

int64_t LongestSource(const Graph& graph, int parameter, int length_axis) {
  const PartialShape& shape =
      graph.node(graph.parameters[static_cast<size_t>(parameter)]).outputs[0].shape;
  if (!shape.has_rank() || shape.rank() <= length_axis || length_axis == 0 ||
      shape.dim(length_axis) != PartialShape::kDynamic) {
    return 0;
  }
  const auto takes = [&](int64_t length) { return Takes(graph, parameter, length_axis, length); };
  const bool is_float =
      ops::IsFloat(graph.node(graph.parameters[static_cast<size_t>(parameter)]).outputs[0].dtype);
  const int64_t most_joined = is_float ? kMostJoined : 1;
  int64_t works = 0;  // windows may need more positions than the shortest
  const std::set<int64_t> extents = TableExtents(graph);
  for (int64_t length = kShortest; !extents.empty() && works == 0 && length <= kLongest;
       length *= 2) {
    works = takes(length) ? length : 0;
  }
  for (const int64_t extent : extents) {
    int64_t fails = std::max(extent, works) + 1;
    while (fails <= (extent + 1) * most_joined && takes(fails)) {
      works = fails;
      fails *= 2;
    }
    if (fails > (extent + 1) * most_joined) {
      continue;
    }
    while (fails - works > 1) {
      const int64_t middle = works + (fails - works) / 2;
      (takes(middle) ? works : fails) = middle;
    }
    // An encoder that wants multiples of a number takes longer sources again.
    for (const int64_t block : {1, 2, 3, 4, 5, 8, 10, 16, 32, 64, 128, 256}) {
      if (takes((works / block + 1) * block)) {
        return 0;
      }
    }
    return works < kShortest ? 0 : works;
  }
  return 0;
}

}  // namespace beamwright::engine
