// Encoders that were exported for a batch of 1, opened to any number of sources where they are
// proven to stay apart then.
#ifndef BEAMWRIGHT_OPS_COMPILE_OPENED_BATCH_H_
#define BEAMWRIGHT_OPS_COMPILE_OPENED_BATCH_H_

#include <string>

#include "ops/compile/row_proof.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// Whether a Parameter declares one row alone.
bool IsForOneRow(const Graph& graph);

// Opens `graph`, which is for one row and as the importer leaves it, and proves that rows stay
// apart: `opened`, `info` and `proof` are of the opened graph then. As every row of it is computed
// as if it were alone, one row gives what the file gives. Returns the obstacle, in which
// case they are not touched; empty if nothing does.
std::string OpenBatch(Graph graph, const OperatorSet& operators, const RowInputs& rows,
                      Graph& opened, GraphInfo& info, RowProof& proof);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_OPENED_BATCH_H_
