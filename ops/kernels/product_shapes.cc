// Shapes of matrix products, as NumPy's matmul has them, with transposed operands: the shape of the
// result (ProductShape), what to compute (PlanProduct), and where the rows of requests are in the
// result (ProductRows).
//
// Normalize brings both operands to [.., M, K] and [.., K, N]. A vector gets an axis of extent 1,
// which the result lacks again. Axes before the last two broadcast: PlanProduct lists the pairs of
// matrices to multiply.
//
// ProductRows counts axes from the right, since operands may have different ranks. If both operands
// have rows, these must be on the same axis of the result. Rows on an axis that is summed over mix
// requests.
#include "ops/kernels/product_shapes.h"

#include <algorithm>

#include "ops/base/status.h"
#include "ops/kernels/broadcast_loop.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

// Shapes of rank 2 or more, as if not transposed: [.., M, K] and [.., K, N].
struct Operands {
  Shape a, b;
  bool a_vector = false;
  bool b_vector = false;
};

Operands Normalize(const ProductOptions& options, Shape a, Shape b) {
  Operands result{std::move(a), std::move(b)};
  result.a_vector = result.a.size() == 1;
  result.b_vector = result.b.size() == 1;
  if (result.a_vector) {
    result.a.insert(result.a.begin(), 1);
  } else if (options.transpose_a) {
    std::swap(result.a[result.a.size() - 1], result.a[result.a.size() - 2]);
  }
  if (result.b_vector) {
    result.b.push_back(1);
  } else if (options.transpose_b) {
    std::swap(result.b[result.b.size() - 1], result.b[result.b.size() - 2]);
  }
  return result;
}

PartialShape BatchDims(const Shape& shape) {
  return PartialShape(Shape(shape.begin(), shape.end() - 2));
}

// The place of one operand's row axis in the product, counted from the right of the product as
// if both operands were matrices; 0 if it is summed over. `left`: the first operand.
int FromRight(const RowInfo& rows, int rank, bool transposed, bool left) {
  if (rank == 1) {
    return 0;
  }
  int distance = rank - rows.axis;  // 1: last axis, 2: the one before
  if (distance <= 2 && transposed) {
    distance = 3 - distance;
  }
  if (distance > 2) {
    return distance;
  }
  return left ? (distance == 2 ? 2 : 0) : (distance == 1 ? 1 : 0);
}

}  // namespace

absl::StatusOr<PartialShape> ProductShape(const ProductOptions& options, const PartialShape& a,
                                          const PartialShape& b) {
  if ((a.has_rank() && a.rank() == 0) || (b.has_rank() && b.rank() == 0)) {
    return Invalid("shapes ", a.ToString(), " and ", b.ToString(), ": a scalar has no product");
  }
  if (!a.has_rank() || !b.has_rank()) {
    return PartialShape();
  }
  const Operands operands = Normalize(options, a.dims(), b.dims());
  const int64_t depth_b = operands.b[operands.b.size() - 2];
  absl::StatusOr<PartialShape> batch =
      BroadcastPartial(BatchDims(operands.a), BatchDims(operands.b));
  if (!MergeExtents(operands.a.back(), depth_b).ok() || !batch.ok()) {
    return Invalid("shapes ", a.ToString(), options.transpose_a ? " (transposed)" : "", " and ",
                   b.ToString(), options.transpose_b ? " (transposed)" : "", " do not multiply");
  }
  Shape dims = batch->dims();
  if (!operands.a_vector) {
    dims.push_back(operands.a[operands.a.size() - 2]);
  }
  if (!operands.b_vector) {
    dims.push_back(operands.b.back());
  }
  return PartialShape(std::move(dims));
}

ProductPlan PlanProduct(const ProductOptions& options, const Shape& a, const Shape& b) {
  const Operands operands = Normalize(options, a, b);
  ProductPlan plan;
  plan.rows = operands.a[operands.a.size() - 2];
  plan.depth = operands.a.back();
  plan.columns = operands.b.back();
  plan.a_transposed = options.transpose_a && !operands.a_vector;
  plan.b_transposed = options.transpose_b || operands.b_vector;
  const PartialShape batch_a = BatchDims(operands.a);
  const PartialShape batch_b = BatchDims(operands.b);
  const absl::StatusOr<PartialShape> batch = BroadcastPartial(batch_a, batch_b);
  const absl::Span<const int64_t> shapes[] = {batch_a.dims(), batch_b.dims()};
  BroadcastPlan(batch.ok() ? batch->dims() : Shape{0}, shapes)
      .ForEachRow([&](int64_t, int64_t count, const PerOperand& at, const PerOperand& step) {
        for (int64_t i = 0; i < count; ++i) {
          plan.pairs.emplace_back(at[0] + i * step[0], at[1] + i * step[1]);
        }
      });
  return plan;
}

RowInfo ProductRows(const ProductOptions& options, absl::Span<const RowInfo> rows,
                    absl::Span<const InputInfo> inputs) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  if (!inputs[0].shape.has_rank() || !inputs[1].shape.has_rank() || IsExtent(rows[0]) ||
      IsExtent(rows[1])) {
    return kMixedRows;
  }
  int from_right = 0;
  int64_t factor = 1;
  for (size_t i = 0; i < 2; ++i) {
    if (!IsRows(rows[i])) {
      continue;
    }
    const int distance = FromRight(rows[i], inputs[i].shape.rank(),
                                   i == 0 ? options.transpose_a : options.transpose_b, i == 0);
    if (distance == 0 ||
        (from_right != 0 && (distance != from_right || factor != rows[i].factor))) {
      return kMixedRows;
    }
    from_right = distance;
    factor = rows[i].factor;
  }
  for (size_t i = 0; i < 2; ++i) {
    const PartialShape& shape = inputs[i].shape;
    if (IsFixed(rows[i]) && from_right > 2 && shape.rank() >= from_right &&
        shape.dim(shape.rank() - from_right) != 1) {
      return kMixedRows;
    }
  }
  int rank = std::max({inputs[0].shape.rank(), inputs[1].shape.rank(), 2});
  int axis = rank - from_right;
  // A vector's axis is missing from the product.
  if (inputs[1].shape.rank() == 1 && from_right == 1) {
    return kMixedRows;
  }
  if (inputs[0].shape.rank() == 1 && from_right == 1) {
    axis -= 1;  // the product lacks the second axis from the right
  }
  return RowsAt(axis, factor);
}

}  // namespace beamwright::ops
