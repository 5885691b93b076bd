// States of loops that are less than that. A `while` as TensorFlow and Keras write it carries all
// that it reads: weights that nothing changes, and the number of the iteration. As states, weights
// are not known when the body is compiled, and neither they nor the number can be separated from
// what belongs to rows. Private to shape_folding.cc.
#ifndef BEAMWRIGHT_OPS_COMPILE_PLAIN_STATES_H_
#define BEAMWRIGHT_OPS_COMPILE_PLAIN_STATES_H_

#include "ops/graph/inference.h"

namespace beamwright::ops {

// Makes an invariant input of each state that is handed on as it came, and the iteration's number
// of each that counts from 0, also in loops inside of bodies. Whether anything changed; then the
// graph has to be inferred anew.
bool SimplifyStates(Graph& graph, const GraphInfo& info);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_PLAIN_STATES_H_
