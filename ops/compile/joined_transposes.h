// Heads of attention as exports write them: [rows, heads, time, width] becomes
// [rows * heads, time, width], is transposed, and comes apart again. Joined, rows cannot be
// separated from heads; a transpose of the axes apart gives the same numbers. Private to
// shape_folding.cc.
#ifndef BEAMWRIGHT_OPS_COMPILE_JOINED_TRANSPOSES_H_
#define BEAMWRIGHT_OPS_COMPILE_JOINED_TRANSPOSES_H_

#include "ops/compile/extents.h"

namespace beamwright::ops {

// Puts a Reshape and a Transpose of the axes apart in the place of each Reshape behind a Transpose,
// or nothing, behind a Reshape that joins them. Whether anything changed; then the graph has to be
// inferred anew.
bool SplitJoinedTransposes(Graph& graph, const GraphInfo& info, const Extents& extents);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_JOINED_TRANSPOSES_H_
