#include "ops/passes/passes.h"

#include <utility>

#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

// 1. What depends on shapes alone becomes known.
// 2. Sources of one batch are kept apart, or a batch of 1 is opened.
// 3. Work leaves loops, and axes and transposes that move nothing go.
// 4. What is left is computed by fewer operators.
constexpr Pass kEncoderPasses[] = {
    // 1.
    &FoldShapes,  // constant folding and all that it makes possible (shape_folding.cc)
    // 2.
    &TakeScalesByItem,  // dynamic quantisation takes a scale for each source
    &OpenBatch,         // a file for one source takes any number
    &GiveRowsLengths,   // ragged batches: each source has its own length
    // 3.
    &HoistInputProducts,   // loop-invariant code motion: X * W^T of a cell, once for all time steps
    &DropPartAxes,         // squeeze elimination: of the slices and parts of a loop
    &DropLayerTransposes,  // transpose elimination: states of layers are read where they are
    // 4.
    &FoldNorms,           // norms of a convolution become part of its filter
    &JoinScaledProducts,  // fusion of an integer product with its conversions, scales and sums
    &JoinLayers,          // fusion of attention, norms and biases
    &JoinSoftPlus,        // fusion of ln(1 + e^x) into one function
    &JoinConvolutions,    // fusion of a convolution with its bias and its activation
    &JoinElementwise,     // fusion of elementwise functions into an ElementwiseChain
};

}  // namespace

absl::Span<const Pass> EncoderPasses() { return kEncoderPasses; }

absl::StatusOr<bool> RunPasses(absl::Span<const Pass> passes, Graph& graph, GraphInfo& info,
                               const PassContext& context) {
  bool any = false;
  for (const Pass pass : passes) {
    BW_ASSIGN_OR_RETURN(const bool changed, pass(graph, info, context));
    any = any || changed;
  }
  return any;
}

absl::StatusOr<bool> TakeChanged(std::optional<Graph> changed, Graph& graph, GraphInfo& info,
                                 const PassContext& context) {
  if (!changed.has_value()) {
    return false;
  }
  graph = *std::move(changed);
  BW_ASSIGN_OR_RETURN(info, InferGraph(graph, context.operators));
  return true;
}

PassContext SourcesContext(const Graph& graph, const OperatorSet& operators) {
  PassContext context{operators, std::vector<int>(graph.parameters.size(), 0)};
  context.keeps_batch = true;
  return context;
}

std::vector<int> DecoderRowAxes(const Graph& graph, int token_parameter, int token_axis) {
  std::vector<int> axes(graph.parameters.size(), 0);
  if (token_parameter >= 0) {
    axes[static_cast<size_t>(token_parameter)] = token_axis;
  }
  return axes;
}

}  // namespace beamwright::ops
