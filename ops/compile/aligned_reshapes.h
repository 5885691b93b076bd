// Reshapes whose computed targets leave two extents open, such as the attention of several heads
// over a source, [2 * rows, 1, time] to [rows, 2, 1, time]. A pattern can leave one open and copy
// others, but only from the same axis. So both shapes are made equally long by axes of 1, which
// come before the Reshape or go behind it. Private to shape_folding.cc.
#ifndef BEAMWRIGHT_OPS_COMPILE_ALIGNED_RESHAPES_H_
#define BEAMWRIGHT_OPS_COMPILE_ALIGNED_RESHAPES_H_

#include "ops/compile/extents.h"

namespace beamwright::ops {

// Gives such Reshapes constant patterns. Whether anything changed; then the graph has to be
// inferred anew. For what no other pass can fold: those look for the Reshape as the file has it.
bool AlignReshapes(Graph& graph, const GraphInfo& info, const Extents& extents);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_ALIGNED_RESHAPES_H_
