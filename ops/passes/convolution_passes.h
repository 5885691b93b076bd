// Passes for convolutions of encoders, of pictures above all (ops/passes/passes.h).
#ifndef BEAMWRIGHT_OPS_PASSES_CONVOLUTION_PASSES_H_
#define BEAMWRIGHT_OPS_PASSES_CONVOLUTION_PASSES_H_

#include "ops/passes/passes.h"

namespace beamwright::ops {

// Results differ from those of the graph in their last bits.
absl::StatusOr<bool> FoldNorms(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> JoinConvolutions(Graph& graph, GraphInfo& info, const PassContext& context);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_PASSES_CONVOLUTION_PASSES_H_
