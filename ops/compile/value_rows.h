// Which rows of a step each value of a loop's body belongs to, by the operators' row functions
// (docs/architecture.md, 'Rows'): what planning a step over many rows rests on, and what computing
// a table of a step's values for every token does.
#ifndef BEAMWRIGHT_OPS_COMPILE_VALUE_ROWS_H_
#define BEAMWRIGHT_OPS_COMPILE_VALUE_ROWS_H_

#include <vector>

#include "ops/compile/scopes.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// By node of the body; its outputs share one.
std::vector<RowInfo> FindRows(const Loop& loop, const GraphInfo& body_info,
                              const OperatorSet& operators, const std::vector<Scope>& scopes);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_VALUE_ROWS_H_
