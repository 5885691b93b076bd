// FoldShapes: what a graph computes about its own shapes is replaced by its result.
//
//   before: Reshape(x, Concat(Gather(ShapeOf(x), 0), -1))     and much else, as exports have it
//   after:  Reshape(x, [0, -1])
//
// None of that code can be looked through by the rules of operators. The graph computes the same
// for all inputs that it took before. Reads context.row_axes and context.keeps_batch.
//
// 1. Passes that need no extents run once. 2. For a search, a batch of 1 that Parameters declare is
// opened to any number of rows: what the graph computes of one row, it computes of each. 3. Extents
// are found (ops/compile/extents.h), the first pass that changes anything ends the round, and
// rounds follow until none does: a new constant lets inference compute more, which may fold more.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ops/base/status.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

// A graph that was exported for one row alone takes any number of them, unless that contradicts
// something in it. Whether it was one.
bool OpenRows(Graph& graph, GraphInfo& info, const OperatorSet& operators,
              const std::vector<int>& row_axes) {
  Graph open = graph;
  bool changed = false;
  for (size_t i = 0; i < row_axes.size(); ++i) {
    PartialShape& shape = open.node(open.parameters[i]).outputs[0].shape;
    if (row_axes[i] >= 0 && shape.has_rank() && row_axes[i] < shape.rank() &&
        shape.dim(row_axes[i]) == 1) {
      Shape dims = shape.dims();
      dims[static_cast<size_t>(row_axes[i])] = PartialShape::kDynamic;
      shape = PartialShape(std::move(dims));
      changed = true;
    }
  }
  if (changed) {
    ForgetShapes(open);
    absl::StatusOr<GraphInfo> inferred = InferGraph(open, operators);
    if (inferred.ok()) {
      graph = std::move(open);
      info = *std::move(inferred);
      return true;
    }
  }
  return false;
}

// Whether there is anything that extents could decide: symbols come from ShapeOf, and are used by
// the others. Extents of every value, and a graph made anew, are much memory for a long graph.
bool HasShapesToFold(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op == "ShapeOf" || node.op == "Reshape" || node.op == "Broadcast" ||
           node.loop != nullptr || node.branches != nullptr;
  });
}

// Numbers that extents know and inference does not, as declared shapes: what comes behind, rules of
// rows among it, reads these. For encoders, last of all.
absl::StatusOr<bool> DeclareExtents(Graph& graph, GraphInfo& info, const PassContext& context) {
  if (!context.keeps_batch) {
    return false;
  }
  const Extents& extents = context.shapes->extents;
  bool any = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const bool is_given = node.op == "Constant" || node.op == "Parameter";
    for (size_t output = 0; output < node.outputs.size() && !is_given; ++output) {
      PartialShape& declared = node.outputs[output].shape;
      const auto& known = extents.of({static_cast<int>(i), static_cast<int>(output)}).shape;
      if (!known.has_value() ||
          (declared.has_rank() && declared.rank() != static_cast<int>(known->size()))) {
        continue;
      }
      Shape dims =
          declared.has_rank() ? declared.dims() : Shape(known->size(), PartialShape::kDynamic);
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        dims[axis] = (*known)[axis].is_number() ? (*known)[axis].number : dims[axis];
      }
      any = any || !declared.has_rank() || dims != declared.dims();
      declared = PartialShape(std::move(dims));
    }
  }
  if (any) {
    BW_ASSIGN_OR_RETURN(info, InferGraph(graph, context.operators));
  }
  return any;
}

constexpr Pass kOnce[] = {
    &DropDeadOutputs,      // indices of a MaxPool that nothing reads
    &SimplifyStates,       // states of loops that nothing changes, or that count
    &ScaleBeforeDropping,  // integer products with a vector
};

constexpr Pass kUntilNothingChanges[] = {
    &FoldConstants,          // constant folding, branches, slices of the whole, dead code
    &DropNeedlessRepeat,     // repeats that broadcasting replaces
    &SplitJoinedAxes,        // common reshape elimination; needs constant patterns
    &SplitJoinedTransposes,  // reshapes around transposes of heads
    &PickByRow,              // batched gathers
    &FindRelativeShifts,     // attention by relative positions: RelativeShift
    &AlignReshapes,          // what no other pass can fold
    &DeclareExtents,
};

// Runs the first pass of the list that changes anything; whether there was one.
absl::StatusOr<bool> RunFirst(Graph& graph, GraphInfo& info, const PassContext& context) {
  for (const Pass pass : kUntilNothingChanges) {
    BW_ASSIGN_OR_RETURN(const bool changed, pass(graph, info, context));
    if (changed) {
      return true;
    }
  }
  return false;
}

}  // namespace

void ForgetShapes(Graph& graph) {
  for (Node& node : graph.nodes) {
    const bool keeps = node.op == "Constant" || node.op == "Parameter";
    for (size_t i = 0; i < node.outputs.size() && !keeps; ++i) {
      node.outputs[i].shape = PartialShape();
    }
    if (node.loop != nullptr) {
      auto loop = std::make_shared<Loop>(*node.loop);
      ForgetShapes(loop->body);
      for (const int parameter : loop->body.parameters) {
        PartialShape& shape = loop->body.node(parameter).outputs[0].shape;
        if (shape.has_rank()) {
          shape = PartialShape(Shape(static_cast<size_t>(shape.rank()), PartialShape::kDynamic));
        }
      }
      node.loop = std::move(loop);
    }
  }
}

absl::StatusOr<bool> FoldShapes(Graph& graph, GraphInfo& info, const PassContext& context) {
  // 1.
  BW_ASSIGN_OR_RETURN(bool any, RunPasses(kOnce, graph, info, context));
  // 2.
  const bool for_one_row =
      !context.keeps_batch && OpenRows(graph, info, context.operators, context.row_axes);
  any = any || for_one_row;
  if (!HasShapesToFold(graph)) {
    return any;
  }
  // 3. A round mends all layers of a deep graph at once where extents pass through what is not
  // folded yet; where they do not, a round mends one layer, and there are no more layers than
  // nodes.
  const size_t most_rounds = graph.nodes.size();
  for (size_t round = 0; round < most_rounds; ++round) {
    Symbols symbols;
    const Extent rows = symbols.New();
    const std::vector<ValueExtents> parameters =
        context.row_axes.empty() ? std::vector<ValueExtents>()
                                 : ParametersWithRows(graph, context.row_axes, rows, symbols);
    const Extents extents = Extents::Find(graph, info, context.operators, symbols, parameters);
    const bool is_search = !context.keeps_batch && !context.row_axes.empty();
    const ShapeFacts shapes{extents, is_search ? &rows : nullptr, for_one_row};
    PassContext with_shapes{context.operators};
    with_shapes.keeps_batch = context.keeps_batch;
    with_shapes.shapes = &shapes;
    BW_ASSIGN_OR_RETURN(const bool changed, RunFirst(graph, info, with_shapes));
    if (!changed) {
      return any;
    }
    any = true;
  }
  return any;
}

}  // namespace beamwright::ops
