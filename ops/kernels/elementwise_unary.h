// The loop of operators of one operand, and their checks. Private to the elementwise operators.
#ifndef BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_UNARY_H_
#define BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_UNARY_H_

#include "ops/base/status.h"
#include "ops/base/vector_isa.h"
#include "ops/graph/operator.h"
#include "ops/kernels/inputs.h"

namespace beamwright::ops {

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

#endif  // BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_UNARY_H_
