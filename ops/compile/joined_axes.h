// Layers that exports wrap in Reshapes: [time, batch, width] becomes [time * batch, width], goes
// through a product and a bias, and comes back. Joined, the axes are neither time steps nor rows;
// the layer itself works on any number of axes. Private to shape_folding.cc.
#ifndef BEAMWRIGHT_OPS_COMPILE_JOINED_AXES_H_
#define BEAMWRIGHT_OPS_COMPILE_JOINED_AXES_H_

#include "ops/compile/extents.h"

namespace beamwright::ops {

// Computes such layers on the axes that they come back to; the joined forms lose their readers.
// Whether anything changed; then the graph has to be inferred anew.
bool SplitJoinedAxes(Graph& graph, const GraphInfo& info, const Extents& extents);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_JOINED_AXES_H_
