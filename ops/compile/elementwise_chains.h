// Functions of elements that read each other's results, such as the gates of a recurrent layer that
// a file spells out, joined into one node that passes over its inputs once
// (ops/kernels/elementwise_chain.h). Parts of a Split are read where they stand. The operations
// stay the same, and so do the bits.
#ifndef BEAMWRIGHT_OPS_COMPILE_ELEMENTWISE_CHAINS_H_
#define BEAMWRIGHT_OPS_COMPILE_ELEMENTWISE_CHAINS_H_

#include "absl/status/status.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// `graph` and `info` as InferGraph leaves them, before and after. Bodies stay as they are.
absl::Status JoinElementwise(Graph& graph, GraphInfo& info, const OperatorSet& operators);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_ELEMENTWISE_CHAINS_H_
