// memory[arange(rows), t]: each row picks one of its parts by a separate index. Exports write
// that with numbers that count all rows, as tuples of GatherND or as places in the rows joined with
// the axis; with rows of several requests these numbers say nothing, and rows cannot be separated.
// Private to shape_folding.cc.
#ifndef BEAMWRIGHT_OPS_COMPILE_PICKED_BY_ROW_H_
#define BEAMWRIGHT_OPS_COMPILE_PICKED_BY_ROW_H_

#include "ops/compile/extents.h"

namespace beamwright::ops {

// Puts a Gather or GatherND with the rows as a batch axis in the place of each of these. Whether
// anything changed; then the graph has to be inferred anew. A place outside the axis, which an
// export with joined axes looks up in a neighbour's row, is an error then.
bool PickByRow(Graph& graph, const GraphInfo& info, const Extents& extents);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_PICKED_BY_ROW_H_
