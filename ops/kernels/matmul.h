// MatMul: NumPy's matrix product (batches broadcast, operands of rank 1 allowed), attributes
// transpose_a and transpose_b, any float or integer type: f16 and bf16 in f32, integers wrap. A
// second operand of rank 2 that is known at load is packed (ops/kernels/packed_matmul.h);
// everything else runs in loops of fixed order. Either way a result element's bits follow from its
// own row and column alone.
#ifndef BEAMWRIGHT_OPS_KERNELS_MATMUL_H_
#define BEAMWRIGHT_OPS_KERNELS_MATMUL_H_

#include "ops/base/precision.h"
#include "ops/kernels/operator_code.h"
#include "ops/tensor/matrix.h"

namespace beamwright::ops {

extern const OperatorCode kMatMul;
// The same with packed weights in this precision.
const OperatorCode& MatMulIn(Precision weights);

// A matrix by element strides, so that a transposed operand is a view.
struct StridedMatrix {
  const float* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

// One row of a product: out[n] = sum over k of a[k * a_stride] * b(k, n), n in [0, columns). The
// order of the sum follows from `depth` and from whether b is `transposed` (stored [columns,
// depth]): ascending k if not, 16 lanes (ops/kernels/math.h) if so.
void MultiplyRow(const float* a, int64_t a_stride, const StridedMatrix& b, bool transposed,
                 int64_t depth, absl::Span<float> out);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_MATMUL_H_
