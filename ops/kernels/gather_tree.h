// GatherTree-1: the token ids of each beam, found by walking the parents back from the last step.
//
// step_ids, parent_ids [T, B, K], max_seq_len [B], end_token scalar, all of one type: any integer
// or float type (ids are copied as they are; parents and lengths are computed in 64-bit integers,
// so no id loses bits). Column (b, k): L = min(T, max_seq_len[b]); from step L - 1 down, the id of
// the beam that the parents lead to; what follows the first end_token, and all from L on, is
// end_token. L <= 0 gives a column of end_token.
//
// A parent is checked when it is followed, and only then: rows that no beam visits may hold
// anything. An error names the first bad column's place and value, whatever the number of threads.
// Columns are independent; they run in parallel above a threshold. O(T B K).
#ifndef BEAMWRIGHT_OPS_KERNELS_GATHER_TREE_H_
#define BEAMWRIGHT_OPS_KERNELS_GATHER_TREE_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

extern const OperatorCode kGatherTree;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_GATHER_TREE_H_
