// MatMulInteger and QLinearMatMul of ONNX: products of matrices of 8-bit integers with zero points,
//
//   y[m, n] = sum over k of (a[m, k] - a_zero[m]) (b[k, n] - b_zero[n])
//
// MatMulInteger gives the sums as i32; QLinearMatMul scales them by a_scale b_scale / y_scale,
// rounds to even and saturates to 8 bits.
//
// 1. PackedIntegerKernel, if b is a matrix that is known at load: integer_product.cc packs it and
//    takes the zero points off at the end.
// 2. MultiplyIntegers otherwise: directly as the formula says, in 64 bits, rows shared out among
//    threads.
//
// Zero points and scales may be one number, or one for each row of a or column of b
// (ExpandIntegers, ExpandFloats). IntegerProductRows says when a product of several requests can be
// computed together: the numbers of a's rows must go along with these rows.
#include <cmath>
#include <vector>

#include "ops/kernels/inputs.h"
#include "ops/kernels/integer_operands.h"
#include "ops/kernels/integer_product.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/product_shapes.h"
#include "ops/kernels/quantization.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

// Calls visit(first output element, row among all of a, first column among all of b, sums) for each
// row of the product.
// Sums are exact: |a - a0| and |b - b0| are below 2^9, so a product of 2^44 terms fits into 64
// bits.
template <typename Row>
void MultiplyIntegers(const ProductPlan& plan, int num_threads, const Tensor& a, const Tensor& b,
                      const Tensor* a_zero, const Tensor* b_zero, Row visit) {
  const std::vector<int32_t> zero_a = ExpandIntegers(a_zero, a, true);
  const std::vector<int32_t> zero_b = ExpandIntegers(b_zero, b, false);
  const int64_t items = static_cast<int64_t>(plan.pairs.size()) * plan.rows;
  ParallelFor(num_threads, items, items * plan.depth * plan.columns, [&](int64_t item) {
    static thread_local std::vector<int64_t> sums;
    const auto [matrix_a, matrix_b] = plan.pairs[static_cast<size_t>(item / plan.rows)];
    const int64_t row = item % plan.rows;
    sums.assign(static_cast<size_t>(plan.columns), 0);
    for (int64_t k = 0; k < plan.depth; ++k) {
      const int64_t at = (matrix_b * plan.depth + k) * plan.columns;
      const int32_t left = ByteAt(a, (matrix_a * plan.rows + row) * plan.depth + k) -
                           zero_a[static_cast<size_t>(matrix_a * plan.rows + row)];
      for (int64_t n = 0; n < plan.columns; ++n) {
        sums[static_cast<size_t>(n)] +=
            left * (ByteAt(b, at + n) - zero_b[static_cast<size_t>(matrix_b * plan.columns + n)]);
      }
    }
    visit(item * plan.columns, matrix_a * plan.rows + row, matrix_b * plan.columns, sums);
  });
}

bool IsOne(const InputInfo& input) {
  return input.shape.is_static() && NumElements(input.shape.dims()) == 1;
}

// Whether a scale or zero point goes along with its operand's rows (`own`): it is one value for
// all, or one for each row on the same axis as the operand's rows. A list for each column of b does
// not hinder rows of a; `is_list` says that this is one.
bool GoesAlong(const RowInfo& own, const InputInfo& operand, const RowInfo& rows,
               const InputInfo& value, bool is_list) {
  if (IsFixed(rows)) {
    return IsOne(value) || (IsFixed(own) && is_list);
  }
  return IsRows(own) && rows == own && operand.shape.has_rank() && value.shape.has_rank() &&
         operand.shape.rank() == value.shape.rank();
}

// Rows of a product. of_a and of_b: scales and zero points of the operands, by input.
RowInfo IntegerProductRows(absl::Span<const RowInfo> rows, absl::Span<const InputInfo> inputs,
                           size_t b, std::initializer_list<size_t> of_a,
                           std::initializer_list<size_t> of_b) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  for (const size_t i : of_a) {
    if (Present(inputs, i) && !GoesAlong(rows[0], inputs[0], rows[i], inputs[i], false)) {
      return kMixedRows;
    }
  }
  for (const size_t i : of_b) {
    if (Present(inputs, i) && !GoesAlong(rows[b], inputs[b], rows[i], inputs[i], true)) {
      return kMixedRows;
    }
  }
  const RowInfo infos[] = {rows[0], rows[b]};
  const InputInfo operands[] = {inputs[0], inputs[b]};
  return ProductRows({}, infos, operands);
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
    BW_RETURN_IF_ERROR(CheckPerRow(a_zero, "a_zero_point", inputs[0].shape, true));
    return CheckPerRow(b_zero, "b_zero_point", inputs[1].shape, false);
  }

  static absl::Status Compute(const Options&, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const ProductPlan plan = PlanProduct({}, inputs[0]->shape(), inputs[1]->shape());
    int32_t* const out = outputs[0].mutable_data<int32_t>();
    MultiplyIntegers(plan, context.num_threads, *inputs[0], *inputs[1], InputOrNull(inputs, 2),
                     InputOrNull(inputs, 3),
                     [&](int64_t first, int64_t, int64_t, const std::vector<int64_t>& sums) {
                       for (size_t n = 0; n < sums.size(); ++n) {
                         out[first + static_cast<int64_t>(n)] = static_cast<int32_t>(sums[n]);
                       }
                     });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return IntegerProductRows(rows, inputs, 1, {2}, {3});
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
    BW_RETURN_IF_ERROR(CheckPerRow(inputs[kAScale], "a_scale", inputs[kA].shape, true));
    BW_RETURN_IF_ERROR(CheckPerRow(inputs[kAZero], "a_zero_point", inputs[kA].shape, true));
    BW_RETURN_IF_ERROR(CheckPerRow(inputs[kBScale], "b_scale", inputs[kB].shape, false));
    BW_RETURN_IF_ERROR(CheckPerRow(inputs[kBZero], "b_zero_point", inputs[kB].shape, false));
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
    const std::vector<float> a_scale = ExpandFloats(inputs[kAScale], *inputs[kA], true);
    const std::vector<float> b_scale = ExpandFloats(inputs[kBScale], *inputs[kB], false);
    const float y_scale = *inputs[kYScale]->data<float>();
    const float y_zero = static_cast<float>(ByteAt(*inputs[kYZero], 0));
    const auto store = [&](auto* out, int64_t first, int64_t row, int64_t column,
                           const std::vector<int64_t>& sums) {
      using T = std::remove_pointer_t<decltype(out)>;
      for (size_t n = 0; n < sums.size(); ++n) {
        const float factor =
            a_scale[static_cast<size_t>(row)] * b_scale[static_cast<size_t>(column) + n] / y_scale;
        out[first + static_cast<int64_t>(n)] =
            Saturate<T>(std::nearbyint(static_cast<float>(sums[n]) * factor) + y_zero);
      }
    };
    MultiplyIntegers(
        plan, context.num_threads, *inputs[kA], *inputs[kB], inputs[kAZero], inputs[kBZero],
        [&](int64_t first, int64_t row, int64_t column, const std::vector<int64_t>& sums) {
          if (outputs[0].dtype() == DType::kI8) {
            store(outputs[0].mutable_data<int8_t>(), first, row, column, sums);
          } else {
            store(outputs[0].mutable_data<uint8_t>(), first, row, column, sums);
          }
        });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (!IsFixed(rows[kYScale]) || !IsFixed(rows[kYZero])) {
      return RowsWithoutRows(rows).value_or(kMixedRows);
    }
    return IntegerProductRows(rows, inputs, kB, {kAScale, kAZero}, {kBScale, kBZero});
  }
};

// MatMulInteger with a matrix b that is known at load, and its zero point as well.
class PackedIntegerKernel final : public Kernel {
 public:
  PackedIntegerKernel(const Tensor& b, const Tensor* b_zero)
      : b_{b.dtype(), PartialShape(b.shape())}, packed_(b, b_zero) {}

  bool NeedsInput(size_t index) const override { return index != 1; }

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    RuntimeInfos infos = DescribeInputs(inputs);
    infos[1] = b_;
    RuntimeResults results(outputs.size());
    BW_RETURN_IF_ERROR(MatMulIntegerOp::Shapes({}, infos, absl::MakeSpan(results)));
    BW_RETURN_IF_ERROR(PrepareOutputs(results, outputs));
    const std::vector<int32_t> zeros = ExpandIntegers(InputOrNull(inputs, 2), *inputs[0], true);
    packed_.Multiply(context.num_threads, *inputs[0], zeros, outputs[0].mutable_data<int32_t>());
    return absl::OkStatus();
  }

 private:
  const InputInfo b_;
  const PackedIntegers packed_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeMatMulInteger(const KernelRequest& request) {
  const absl::Span<const InputInfo> inputs = request.inputs;
  const Tensor* const b = inputs[1].value;
  const bool has_zero = Present(inputs, 3);
  const bool zero_known = !has_zero || (inputs[3].value != nullptr && inputs[3].shape.rank() <= 2);
  if (b != nullptr && b->rank() == 2 && zero_known) {
    return std::make_unique<PackedIntegerKernel>(*b, has_zero ? inputs[3].value : nullptr);
  }
  return MakeAs<MatMulIntegerOp>(request);
}

}  // namespace

constinit const OperatorCode kMatMulInteger = {&InferAs<MatMulIntegerOp>, &MakeMatMulInteger,
                                               &MatMulIntegerOp::Rows};
constinit const OperatorCode kQLinearMatMul = CodeOf<QLinearMatMulOp>(&QLinearMatMulOp::Rows);

}  // namespace beamwright::ops
