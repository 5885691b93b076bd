// The loops of the elementwise operators: over broadcast results as few long inner rows, and what
// operators of one operand and of two operands share.
#ifndef BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_LOOPS_H_
#define BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_LOOPS_H_

#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "ops/base/status.h"
#include "ops/base/vector_isa.h"
#include "ops/graph/operator.h"
#include "ops/kernels/inputs.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// Walks the elements of a broadcast result as few long inner rows: axes over which all operands run
// on are merged, and the innermost row is handed out with a step of 0 or 1 per operand.

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

// What operators of two operands share: broadcasting, its attribute, and the loop. Private to the
// elementwise operators.

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

// The loop of operators of one operand, and their checks. Private to the elementwise operators.

// out[i] = f(in[i]).
template <typename T, typename Out, typename F>
absl::Status MapElements(const Tensor& input, Tensor& output, F f) {
  const T* in = input.data<T>();
  Out* out = output.mutable_data<Out>();
  const int64_t count = input.num_elements();
  VectorizedFor<T>([=]() BW_ALWAYS_INLINE {
    for (int64_t i = 0; i < count; ++i) {
      out[i] = f(in[i]);
    }
  });
  return absl::OkStatus();
}

// Input 0 is of one of the types; the output has its type and shape.
inline absl::Status UnaryShapes(absl::Span<const InputInfo> inputs, absl::Span<const DType> allowed,
                                absl::Span<ValueInfo> outputs, size_t most_inputs = 1) {
  BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, most_inputs, outputs));
  BW_RETURN_IF_ERROR(ExpectType(inputs[0], "input", allowed));
  outputs[0].dtype = inputs[0].dtype;
  outputs[0].shape = inputs[0].shape;
  return absl::OkStatus();
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_LOOPS_H_
