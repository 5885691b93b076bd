// StateUpdate: one step of a layer whose memory is a matrix for each row and head, as in Mamba,
// RetNet, GLA, DeltaNet and RWKV. In one pass over the state, in the place of one for each operator
// of the formula:
//
//   S' = S * decay + key value^T                               rule "sum"
//   S' = S * decay + key (rate * (value - (S * decay)^T key))^T    "delta" (Yang et al. 2024)
//   S' = S * decay + write (S^T erase)^T + key value^T             "pair" (RWKV-7)
//   read = S'^T query
//
// In no file: JoinStateUpdates recognises it in what files spell out.
#ifndef BEAMWRIGHT_OPS_KERNELS_STATE_UPDATE_H_
#define BEAMWRIGHT_OPS_KERNELS_STATE_UPDATE_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

inline constexpr char kStateUpdateName[] = "StateUpdate";

// Attributes: rule (string); keys_last: the state is [.., values, keys], else [.., keys, values].
//
// Inputs, f32: state [rows, heads, m, n] or [rows, m, n]; decay [.., m or 1, n or 1]; key, value,
// query, erase, write: [.., k, 1] or [.., 1, k] with the extent of keys or values; rate as value or
// of one element. Axes in front of the last two are the state's or 1, or missing. Absent may be:
// decay, query, rate, and what the rule does not read.
//
// Outputs: the next state, and, with a query, read [rows, heads, values] or [rows, values].
enum StateUpdateInput {
  kUpdateState,
  kUpdateDecay,
  kUpdateKey,
  kUpdateValue,
  kUpdateQuery,
  kUpdateErase,
  kUpdateWrite,
  kUpdateRate,
  kNumUpdateInputs,
};

extern const OperatorCode kStateUpdate;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_STATE_UPDATE_H_
