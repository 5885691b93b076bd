// What operators of two operands share: broadcasting, its attribute, and the loop. Private to the
// elementwise operators.
#ifndef BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_BINARY_H_
#define BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_BINARY_H_

#include "ops/base/vector_isa.h"
#include "ops/graph/operator.h"
#include "ops/kernels/broadcast_loop.h"

namespace beamwright::ops {

// Attribute auto_broadcast: true for "numpy" (the default), false for "none"; others are refused.
absl::StatusOr<bool> ParseAutoBroadcast(const Node& node);

// Two inputs of one type whose shapes broadcast (`broadcast` false: are equal). Sets the output's
// shape, and its type to the inputs'.
absl::Status BinaryShapes(bool broadcast, absl::Span<const InputInfo> inputs,
                          absl::Span<ValueInfo> outputs);

// result[i] = f(left[i], right[i]) over the broadcast result; one loop per pair of steps, so that
// each is a loop the compiler vectorises.
template <typename T, typename Out, typename F>
absl::Status ApplyBinary(const Tensor& left, const Tensor& right, Tensor& result, F f) {
  Out* const out_data = result.mutable_data<Out>();
  const auto row = [&](int64_t offset, int64_t count, const PerOperand& offsets,
                       const PerOperand& steps) {
    const T* a = left.data<T>() + offsets[0];
    const T* b = right.data<T>() + offsets[1];
    Out* out = out_data + offset;
    const int64_t b_step = steps[1];
    if (steps[0] == 1 && b_step == 1) {
      VectorizedFor<T>([=]() BW_ALWAYS_INLINE {
        for (int64_t i = 0; i < count; ++i) {
          out[i] = f(a[i], b[i]);
        }
      });
    } else if (steps[0] == 1) {
      VectorizedFor<T>([=]() BW_ALWAYS_INLINE {
        for (int64_t i = 0; i < count; ++i) {
          out[i] = f(a[i], *b);
        }
      });
    } else {
      for (int64_t i = 0; i < count; ++i) {
        out[i] = f(*a, b[i * b_step]);
      }
    }
  };
  if (left.shape() == right.shape()) {
    row(0, result.num_elements(), PerOperand{}, PerOperand{1, 1});
    return absl::OkStatus();
  }
  const absl::Span<const int64_t> shapes[] = {left.shape(), right.shape()};
  BroadcastPlan(result.shape(), shapes).ForEachRow(row);
  return absl::OkStatus();
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_BINARY_H_
