// A decoder over the whole target, as an export left it, made into one loop: shapes folded, the
// target's time axis found, everything that works time step by time step in the loop's body
// (ops/decoder/target_loop.h).
#ifndef BEAMWRIGHT_OPS_DECODER_JOIN_DECODER_H_
#define BEAMWRIGHT_OPS_DECODER_JOIN_DECODER_H_

#include "absl/status/statusor.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

struct JoinedDecoder {
  Graph graph;  // its first result is the logits, the second the attention where that is asked for
  GraphInfo info;
  int loop_node = -1;
};

// `graph` and `info` as InferGraph leaves them; `tokens` and `logits`: indices into
// graph.parameters and graph.results; so is `attention`, or -1 for none. Unimplemented names, for
// each axis of the tokens, the layer that can't be moved into the step.
absl::StatusOr<JoinedDecoder> JoinDecoder(const Graph& graph, const GraphInfo& info,
                                          const OperatorSet& operators, int tokens, int logits,
                                          int attention = -1);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_JOIN_DECODER_H_
