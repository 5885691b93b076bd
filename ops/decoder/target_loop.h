// A decoder as training exported it: recurrent layers, each a loop over the target sequence, and
// around and between them layers that work time step by time step (an embedding before, attention
// and projection after). JoinTargetLoop makes one loop of them, whose body is the whole step: what
// depends on the target moves into it, what does not stays outside and is computed once per
// request.
//
// That a layer works time step by time step is read off Operator::rows, with time steps in the
// place of rows: position t of its output depends on position t of its inputs alone.
#ifndef BEAMWRIGHT_OPS_DECODER_TARGET_LOOP_H_
#define BEAMWRIGHT_OPS_DECODER_TARGET_LOOP_H_

#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// `graph` and `info` as InferGraph leaves them. `token_parameter`: the node that takes the target
// sequence, of rank 2 (or 1), with the time on axis `time_axis`. `results`: Result nodes to keep,
// the logits first. The new graph has the same Parameters and those Results, and computes the same;
// its one Loop slices the token Parameter itself, and its first outputs are the results, joined
// over time. Unimplemented names the layer that can't be moved into the step, and why.
absl::StatusOr<Graph> JoinTargetLoop(const Graph& graph, const GraphInfo& info,
                                     const OperatorSet& operators, int token_parameter,
                                     int time_axis, const std::vector<int>& results);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_TARGET_LOOP_H_
