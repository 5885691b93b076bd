// States that become one longer in each step: the keys and values that an attention decoder keeps
// of the tokens that it has read. The next value joins the state and one place more on an axis.
#ifndef BEAMWRIGHT_OPS_COMPILE_GROWING_STATES_H_
#define BEAMWRIGHT_OPS_COMPILE_GROWING_STATES_H_

#include "ops/graph/graph.h"

namespace beamwright::ops {

// The axis on which `next` is one longer than `parameter` (a Parameter node of `graph`); -1: none.
// Proven, or, where the state is joined with something of unknown extent, taken for so: LoopBody
// checks each step. Axis 0 never grows: it counts rows. `graph` as InferGraph leaves it.
int GrowingAxis(const Graph& graph, int parameter, ValueId next);

// The same of a loop's input: -1 unless it is carried, and in loops whose states may change their
// shapes in any way.
int GrowingAxis(const Loop& loop, const LoopInput& input);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_GROWING_STATES_H_
