// Walks the elements of a broadcast result as few long inner rows: axes over which all operands run
// on are merged, and the innermost row is handed out with a step of 0 or 1 per operand.
#ifndef BEAMWRIGHT_OPS_KERNELS_BROADCAST_LOOP_H_
#define BEAMWRIGHT_OPS_KERNELS_BROADCAST_LOOP_H_

#include <array>

#include "absl/types/span.h"
#include "ops/tensor/shape.h"

namespace beamwright::ops {

inline constexpr int kMaxOperands = 3;

struct BroadcastPlan {
  // Outermost first; at least one axis. strides in elements, 0 where an operand repeats.
  Shape dims;
  std::array<Shape, kMaxOperands> strides;

  // `shapes` broadcast to `out` (checked before).
  BroadcastPlan(absl::Span<const int64_t> out, absl::Span<const absl::Span<const int64_t>> shapes);

  // row(offset of the result, count, offsets of the operands, steps of the operands)
  template <typename Row>
  void ForEachRow(Row row) const {
    const size_t inner = dims.size() - 1;
    std::array<int64_t, kMaxOperands> offsets{};
    std::array<int64_t, kMaxOperands> steps{};
    for (size_t k = 0; k < kMaxOperands; ++k) {
      steps[k] = strides[k][inner];
    }
    const int64_t total = NumElements(dims);
    Shape index(dims.size(), 0);
    for (int64_t done = 0; done < total; done += dims[inner]) {
      row(done, dims[inner], offsets, steps);
      for (size_t axis = inner; axis-- > 0;) {
        const bool carry = ++index[axis] == dims[axis];
        for (size_t k = 0; k < kMaxOperands; ++k) {
          offsets[k] += carry ? -strides[k][axis] * (dims[axis] - 1) : strides[k][axis];
        }
        if (!carry) {
          break;
        }
        index[axis] = 0;
      }
    }
  }
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_BROADCAST_LOOP_H_
