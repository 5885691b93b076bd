// What products of matrices have in common whatever their elements: NumPy's rules for shapes, which
// matrix of each operand belongs to a matrix of the result, and rows.
#ifndef BEAMWRIGHT_OPS_KERNELS_PRODUCT_SHAPES_H_
#define BEAMWRIGHT_OPS_KERNELS_PRODUCT_SHAPES_H_

#include "absl/container/inlined_vector.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_PRODUCT_SHAPES_H_
