// MatMul: NumPy's matrix product (batches broadcast, operands of rank 1 allowed), attributes
// transpose_a and transpose_b, any float or integer type: f16 and bf16 in f32, integers wrap. A
// second operand of rank 2 that is known at load is packed (ops/kernels/packed_matmul.h);
// what is computed goes by a few rows at a time (ops/kernels/matmul.h). Either way a result
// element's bits follow from its own row and column alone.
//
// Below: products of rows with a matrix that was computed, as in attention.
#ifndef BEAMWRIGHT_OPS_KERNELS_MATMUL_H_
#define BEAMWRIGHT_OPS_KERNELS_MATMUL_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "ops/base/precision.h"
#include "ops/graph/operator.h"
#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// What products of matrices have in common whatever their elements: NumPy's rules for shapes, which
// matrix of each operand belongs to a matrix of the result, and rows.

struct ProductOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};

// Shape of a product: [.., M, K] times [.., K, N], leading axes broadcast. An operand of rank 1 is
// a matrix [1, K] or [K, 1] whose axis of extent 1 the result lacks; transposing it is nothing.
// Unknown rank in, unknown rank out. InvalidArgument naming both shapes.
absl::StatusOr<PartialShape> ProductShape(const ProductOptions& options, const PartialShape& a,
                                          const PartialShape& b);

// The matrices of a product whose shape has been checked.
struct ProductPlan {
  int64_t rows = 0;           // M
  int64_t depth = 0;          // K
  int64_t columns = 0;        // N
  bool a_transposed = false;  // stored [K, M]
  bool b_transposed = false;  // stored [N, K]
  // For each matrix of the result, the indices of its operands.
  absl::InlinedVector<std::pair<int64_t, int64_t>, 16> pairs;
};
ProductPlan PlanProduct(const ProductOptions& options, const Shape& a, const Shape& b);

// Rows of the product of the first two inputs.
RowInfo ProductRows(const ProductOptions& options, absl::Span<const RowInfo> rows,
                    absl::Span<const InputInfo> inputs);

extern const OperatorCode kMatMul;
// The same with packed weights in this precision.
const OperatorCode& MatMulIn(Precision weights);

inline constexpr char kBiasedProductName[] = "BiasedProduct";

// BiasedProduct: f32 rows [.., depth] times a weight that is known, plus a bias [columns] that is
// known; attributes transpose_b, and relu, which puts 0 in the place of what is below. In no file:
// MatMul, Add and ReLU become one when a graph is compiled (ops/passes/layer_fusion.cc), and so
// are the bits. A panel of the product gets its bias while it is in the cache.
const OperatorCode& BiasedProductIn(Precision weights);

// Products of rows with a matrix that was computed, as in attention: a few rows at a time, with
// their sums in registers. Weights that are known at load are packed instead
// (ops/kernels/packed_matmul.h). Every element is one order of fused multiply-adds, which follows
// from the depth and from how the matrix is stored: how many rows or columns are computed together,
// and with which instructions, changes no bit.

// A matrix b of `depth` by `columns`.
struct StoredMatrix {
  const float* data = nullptr;
  int64_t stride = 0;       // between the lines that follow
  bool transposed = false;  // a line is a column of b, else a row
};

// As many rows as registers have room for.
inline constexpr int kMostFewRows = 6;

struct FewRows {
  int count = 0;
  const float* a[kMostFewRows];  // [depth] each
  float* out[kMostFewRows];      // [columns] each
};

// out[row][n] = sum over k of a[row][k] * b(k, n). If b is transposed, term k goes to lane k mod
// 16, each lane is a chain of fused multiply-adds from 0 in ascending k, and AddLanes
// (ops/kernels/math.h) joins them; otherwise there is one such chain.
void MultiplyRows(const FewRows& rows, const StoredMatrix& b, int64_t depth, int64_t columns);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_MATMUL_H_
