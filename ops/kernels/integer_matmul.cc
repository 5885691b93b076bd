#include <cmath>
#include <vector>

#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/product_shapes.h"
#include "ops/kernels/quantization.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

// A value per row of a (or column of b), or one for all. `list` may be absent: zeros.
absl::Status CheckPerRow(const InputInfo& list, absl::string_view name, int64_t extent, bool rows) {
  if (list.dtype == DType::kUndefined || !list.shape.has_rank() || list.shape.rank() == 0) {
    return absl::OkStatus();
  }
  // [n], [.., n, 1] or [.., 1, n], all other extents 1.
  int64_t count = 1;
  bool fits = true;
  for (int axis = 0; axis < list.shape.rank(); ++axis) {
    const int64_t dim = list.shape.dim(axis);
    const int from_right = list.shape.rank() - axis;
    const bool here = list.shape.rank() == 1 || from_right == (rows ? 2 : 1);
    fits = fits && (here || dim == 1 || dim < 0);
    count = here ? dim : count;
  }
  fits = fits && (count == 1 || MergeExtents(count, extent).ok());
  return fits ? absl::OkStatus()
              : Invalid(name, ": shape ", list.shape.ToString(),
                        " is neither one value nor one for ",
                        rows ? "each row of a" : "each column of b");
}

int64_t ExtentFromRight(const PartialShape& shape, int distance) {
  return shape.has_rank() && shape.rank() >= distance ? shape.dim(shape.rank() - distance)
         : shape.has_rank()                           ? 1
                                                      : PartialShape::kDynamic;
}

template <typename T>
std::vector<T> Expand(const Tensor* list, int64_t count) {
  std::vector<T> result(static_cast<size_t>(count), T{});
  if (list == nullptr || !list->has_value()) {
    return result;
  }
  VisitDType(list->dtype(), [&](auto type) {
    using S = decltype(type);
    if constexpr (std::is_arithmetic_v<S>) {
      for (int64_t i = 0; i < count; ++i) {
        result[static_cast<size_t>(i)] =
            static_cast<T>(list->data<S>()[list->num_elements() == 1 ? 0 : i]);
      }
    }
  });
  return result;
}

int32_t ByteAt(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::kI8 ? tensor.data<int8_t>()[i] : tensor.data<uint8_t>()[i];
}

// Calls row(first output element, row of its matrix, sums) for each row of the product.
// Sums are exact: |a - a0| and |b - b0| are below 2^9, so a product of 2^44 terms fits into 64
// bits.
template <typename Row>
void MultiplyIntegers(const ProductPlan& plan, int num_threads, const Tensor& a, const Tensor& b,
                      const Tensor* a_zero, const Tensor* b_zero, Row visit) {
  const std::vector<int32_t> zero_a = Expand<int32_t>(a_zero, plan.rows);
  const std::vector<int32_t> zero_b = Expand<int32_t>(b_zero, plan.columns);
  const int64_t items = static_cast<int64_t>(plan.pairs.size()) * plan.rows;
  ParallelFor(num_threads, items, items * plan.depth * plan.columns, [&](int64_t item) {
    static thread_local std::vector<int64_t> sums;
    const auto [matrix_a, matrix_b] = plan.pairs[static_cast<size_t>(item / plan.rows)];
    const int64_t row = item % plan.rows;
    sums.assign(static_cast<size_t>(plan.columns), 0);
    for (int64_t k = 0; k < plan.depth; ++k) {
      const int64_t at = (matrix_b * plan.depth + k) * plan.columns;
      const int32_t left = ByteAt(a, (matrix_a * plan.rows + row) * plan.depth + k) -
                           zero_a[static_cast<size_t>(row)];
      for (int64_t n = 0; n < plan.columns; ++n) {
        sums[static_cast<size_t>(n)] += left * (ByteAt(b, at + n) - zero_b[static_cast<size_t>(n)]);
      }
    }
    visit(item * plan.columns, row, sums);
  });
}

// Rows of a product whose other inputs are the same for every row and not one per row.
RowInfo IntegerProductRows(absl::Span<const RowInfo> rows, absl::Span<const InputInfo> inputs,
                           size_t b, std::initializer_list<size_t> per_row) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i != 0 && i != b && !IsFixed(rows[i])) {
      return kMixedRows;
    }
  }
  for (const size_t i : per_row) {
    if (Present(inputs, i) &&
        (!inputs[i].shape.is_static() || NumElements(inputs[i].shape.dims()) != 1)) {
      return kMixedRows;
    }
  }
  const RowInfo infos[] = {rows[0], rows[b]};
  const InputInfo operands[] = {inputs[0], inputs[b]};
  // A zero point for each column of b forbids rows there; b with rows is not looked at further.
  return IsRows(rows[b]) ? kMixedRows : ProductRows({}, infos, operands);
}

absl::Status CheckBytes(const InputInfo& input, absl::string_view name, const InputInfo& zero,
                        absl::string_view zero_name) {
  BW_RETURN_IF_ERROR(ExpectType(input, name, {DType::kI8, DType::kU8}));
  return zero.dtype == DType::kUndefined ? absl::OkStatus()
                                         : ExpectType(zero, zero_name, {input.dtype});
}

struct MatMulIntegerOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return NoOptions::Parse(node); }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 4, outputs));
    const InputInfo absent;
    const InputInfo& a_zero = inputs.size() > 2 ? inputs[2] : absent;
    const InputInfo& b_zero = inputs.size() > 3 ? inputs[3] : absent;
    BW_RETURN_IF_ERROR(CheckBytes(inputs[0], "a", a_zero, "a_zero_point"));
    BW_RETURN_IF_ERROR(CheckBytes(inputs[1], "b", b_zero, "b_zero_point"));
    outputs[0].dtype = DType::kI32;
    BW_ASSIGN_OR_RETURN(outputs[0].shape, ProductShape({}, inputs[0].shape, inputs[1].shape));
    BW_RETURN_IF_ERROR(
        CheckPerRow(a_zero, "a_zero_point", ExtentFromRight(inputs[0].shape, 2), true));
    return CheckPerRow(b_zero, "b_zero_point",
                       inputs[1].shape.rank() == 1 ? 1 : ExtentFromRight(inputs[1].shape, 1),
                       false);
  }

  static absl::Status Compute(const Options&, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const ProductPlan plan = PlanProduct({}, inputs[0]->shape(), inputs[1]->shape());
    int32_t* const out = outputs[0].mutable_data<int32_t>();
    MultiplyIntegers(plan, context.num_threads, *inputs[0], *inputs[1], InputOrNull(inputs, 2),
                     InputOrNull(inputs, 3),
                     [&](int64_t first, int64_t, const std::vector<int64_t>& sums) {
                       for (size_t n = 0; n < sums.size(); ++n) {
                         out[first + static_cast<int64_t>(n)] = static_cast<int32_t>(sums[n]);
                       }
                     });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return IntegerProductRows(rows, inputs, 1, {2});
  }
};

struct QLinearMatMulOp {
  using Options = NoOptions;
  enum Input : size_t { kA, kAScale, kAZero, kB, kBScale, kBZero, kYScale, kYZero };
  static absl::StatusOr<Options> Parse(const Node& node) { return NoOptions::Parse(node); }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 8, 8, outputs));
    BW_RETURN_IF_ERROR(CheckBytes(inputs[kA], "a", inputs[kAZero], "a_zero_point"));
    BW_RETURN_IF_ERROR(CheckBytes(inputs[kB], "b", inputs[kBZero], "b_zero_point"));
    BW_RETURN_IF_ERROR(ExpectType(inputs[kAScale], "a_scale", {DType::kF32}));
    BW_RETURN_IF_ERROR(ExpectType(inputs[kBScale], "b_scale", {DType::kF32}));
    BW_RETURN_IF_ERROR(ExpectType(inputs[kYScale], "y_scale", {DType::kF32}));
    BW_RETURN_IF_ERROR(ExpectType(inputs[kYZero], "y_zero_point", {DType::kI8, DType::kU8}));
    const int64_t rows = ExtentFromRight(inputs[kA].shape, 2);
    const int64_t columns = inputs[kB].shape.rank() == 1 ? 1 : ExtentFromRight(inputs[kB].shape, 1);
    BW_RETURN_IF_ERROR(CheckPerRow(inputs[kAScale], "a_scale", rows, true));
    BW_RETURN_IF_ERROR(CheckPerRow(inputs[kAZero], "a_zero_point", rows, true));
    BW_RETURN_IF_ERROR(CheckPerRow(inputs[kBScale], "b_scale", columns, false));
    BW_RETURN_IF_ERROR(CheckPerRow(inputs[kBZero], "b_zero_point", columns, false));
    for (const size_t i : {kYScale, kYZero}) {
      if (inputs[i].shape.is_static() && NumElements(inputs[i].shape.dims()) != 1) {
        return Invalid(i == kYScale ? "y_scale" : "y_zero_point", ": shape ",
                       inputs[i].shape.ToString(), " must have one element");
      }
    }
    outputs[0].dtype = inputs[kYZero].dtype;
    BW_ASSIGN_OR_RETURN(outputs[0].shape, ProductShape({}, inputs[kA].shape, inputs[kB].shape));
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options&, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const ProductPlan plan = PlanProduct({}, inputs[kA]->shape(), inputs[kB]->shape());
    const std::vector<float> a_scale = Expand<float>(inputs[kAScale], plan.rows);
    const std::vector<float> b_scale = Expand<float>(inputs[kBScale], plan.columns);
    const float y_scale = *inputs[kYScale]->data<float>();
    const float y_zero = static_cast<float>(ByteAt(*inputs[kYZero], 0));
    const auto store = [&](auto* out, int64_t first, int64_t row,
                           const std::vector<int64_t>& sums) {
      using T = std::remove_pointer_t<decltype(out)>;
      for (size_t n = 0; n < sums.size(); ++n) {
        const float factor = a_scale[static_cast<size_t>(row)] * b_scale[n] / y_scale;
        out[first + static_cast<int64_t>(n)] =
            Saturate<T>(std::nearbyint(static_cast<float>(sums[n]) * factor) + y_zero);
      }
    };
    MultiplyIntegers(plan, context.num_threads, *inputs[kA], *inputs[kB], inputs[kAZero],
                     inputs[kBZero],
                     [&](int64_t first, int64_t row, const std::vector<int64_t>& sums) {
                       if (outputs[0].dtype() == DType::kI8) {
                         store(outputs[0].mutable_data<int8_t>(), first, row, sums);
                       } else {
                         store(outputs[0].mutable_data<uint8_t>(), first, row, sums);
                       }
                     });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return IntegerProductRows(rows, inputs, kB, {kAScale, kAZero});
  }
};

}  // namespace

constinit const OperatorCode kMatMulInteger = CodeOf<MatMulIntegerOp>(&MatMulIntegerOp::Rows);
constinit const OperatorCode kQLinearMatMul = CodeOf<QLinearMatMulOp>(&QLinearMatMulOp::Rows);

}  // namespace beamwright::ops
