// MatMul: NumPy's matrix product (batches broadcast, operands of rank 1 allowed), attributes
// transpose_a and transpose_b, any float or integer type: f16 and bf16 in f32, integers wrap. A
// second operand of rank 2 that is known at load is packed (ops/kernels/packed_matmul.h);
// what is computed goes by a few rows at a time (ops/kernels/row_products.h). Either way a result
// element's bits follow from its own row and column alone.
#ifndef BEAMWRIGHT_OPS_KERNELS_MATMUL_H_
#define BEAMWRIGHT_OPS_KERNELS_MATMUL_H_

#include "ops/base/precision.h"
#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

extern const OperatorCode kMatMul;
// The same with packed weights in this precision.
const OperatorCode& MatMulIn(Precision weights);

inline constexpr char kBiasedProductName[] = "BiasedProduct";

// BiasedProduct: f32 rows [.., depth] times a weight that is known, plus a bias [columns] that is
// known; attributes transpose_b, and relu, which puts 0 in the place of what is below. In no file:
// MatMul, Add and ReLU become one when a graph is compiled (ops/passes/layer_fusion.cc), and so
// are the bits. A panel of the product gets its bias while it is in the cache.
const OperatorCode& BiasedProductIn(Precision weights);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_MATMUL_H_
