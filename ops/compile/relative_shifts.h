// What attention by relative positions picks through computed indices, as one node. Exporters write
// Transformer-XL's shift, where they trace icefall's zipformer, as
//
//   GatherElements(Reshape(scores, [-1, places]), tile([time - 1, .., 0]) + [0, .., keys - 1])
//
// over all axes in front of the places joined into one, and split them again: none of these nodes
// keeps rows apart. As RelativeShift (ops/kernels/relative_shift.h) it works on the split axes.
// Private to compile/.
#ifndef BEAMWRIGHT_OPS_COMPILE_RELATIVE_SHIFTS_H_
#define BEAMWRIGHT_OPS_COMPILE_RELATIVE_SHIFTS_H_

#include "ops/compile/extents.h"

namespace beamwright::ops {

// Whether there was one. `info` and `extents` are of the graph as it was.
bool FindRelativeShifts(Graph& graph, const GraphInfo& info, const Extents& extents);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_RELATIVE_SHIFTS_H_
