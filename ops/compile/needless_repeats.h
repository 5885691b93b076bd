// Values that a step repeats for each of its rows and then only adds to, or multiplies with, values
// that have these rows: Whisper and TrOCR do it with the position of the token. Broadcasting gives
// the same without it. The repeat hides that the value is one for all rows of a request, so that
// rows of several requests could not be stepped together. Private to shape_folding.cc.
#ifndef BEAMWRIGHT_OPS_COMPILE_NEEDLESS_REPEATS_H_
#define BEAMWRIGHT_OPS_COMPILE_NEEDLESS_REPEATS_H_

#include "ops/compile/extents.h"

namespace beamwright::ops {

// Removes one Tile or Broadcast of this kind. Whether there was one; then the graph has to be
// inferred anew. `graph` and `info` as InferGraph leaves them, `extents` of the same graph.
bool DropNeedlessRepeat(Graph& graph, const GraphInfo& info, const Extents& extents);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_NEEDLESS_REPEATS_H_
