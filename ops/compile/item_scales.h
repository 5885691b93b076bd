// Scales that a graph takes while it runs (DynamicQuantizeLinear) are taken over a whole tensor, so
// that neighbours in a batch change each other's numbers. A served model takes them for each item
// of the batch, a source of an encoder or a row of a step, which is what the file computes for one
// alone: then items stay apart and run together.
//
// Which axis counts items follows from row rules, as soon as the operator is one that keeps them
// apart. A scale gets the rank of what it was taken of, and broadcasts to whatever that becomes.
#ifndef BEAMWRIGHT_OPS_COMPILE_ITEM_SCALES_H_
#define BEAMWRIGHT_OPS_COMPILE_ITEM_SCALES_H_

#include "ops/compile/row_proof.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// Whether the graph takes scales while it runs, in bodies as well.
bool HasDynamicScales(const Graph& graph);

// For a graph whose inputs count items on their first axis; `graph` and `info` as InferGraph leaves
// them. `graph` becomes the one with scales by item if its items are proven to stay apart then, and
// stays as it is if they stay apart anyway, or cannot be shown to. What was proven last.
RowProof TakeScalesByItem(const GraphInfo& info, const OperatorSet& operators,
                          const RowInputs& inputs, Graph& graph);

// For the body of a step, whose rows are items; `info`: of the body. A value whose rows cannot be
// separated keeps its scale; such a step runs row by row.
void TakeScalesByRow(const GraphInfo& info, const OperatorSet& operators, Loop& loop);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_ITEM_SCALES_H_
