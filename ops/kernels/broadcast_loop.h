// Walks the elements of a broadcast result as few long inner rows: axes over which all operands run
// on are merged, and the innermost row is handed out with a step of 0 or 1 per operand.
#ifndef BEAMWRIGHT_OPS_KERNELS_BROADCAST_LOOP_H_
#define BEAMWRIGHT_OPS_KERNELS_BROADCAST_LOOP_H_

#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "ops/tensor/shape.h"

namespace beamwright::ops {

inline constexpr int kMaxOperands = 3;
using PerOperand = std::array<int64_t, kMaxOperands>;

struct BroadcastPlan {
  // Outermost first; at least one axis. strides in elements, 0 where an operand repeats.
  Shape dims;
  std::array<Shape, kMaxOperands> strides;

  // `shapes` broadcast to `out` (checked before).
  BroadcastPlan(absl::Span<const int64_t> out, absl::Span<const absl::Span<const int64_t>> shapes);

  // row(offset of the result, count, offsets of the operands, steps of the operands)
  void ForEachRow(absl::FunctionRef<void(int64_t offset, int64_t count, const PerOperand& offsets,
                                         const PerOperand& steps)>
                      row) const;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_BROADCAST_LOOP_H_
