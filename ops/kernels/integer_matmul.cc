// Products of matrices of integers: MatMulInteger and QLinearMatMul, and products that are scaled
// at once.

#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/base/status.h"
#include "ops/graph/operator.h"
#include "ops/kernels/elementwise_loops.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/integer_product.h"
#include "ops/kernels/matmul.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/quantization.h"
#include "ops/kernels/strided_copy.h"

namespace beamwright::ops {
namespace {

// What products of integers share: scales and zero points that go with the rows of one operand or
// the columns of the other.

// What holds for the rows of a, or for the columns of b: one value for all; a list, one for each;
// or of the operand's rank, broadcast to it, with extent 1 on the axis that is summed over. `list`
// may be absent: zeros.
absl::Status CheckPerRow(const InputInfo& list, absl::string_view name, const PartialShape& operand,
                         bool rows);

// Operand i8 or u8, its zero point, which may be absent, of the same type.
absl::Status CheckBytes(const InputInfo& input, absl::string_view name, const InputInfo& zero,
                        absl::string_view zero_name);

// The values of `list`, which may be null, for each row of a (column of b), matrix by matrix.
std::vector<float> ExpandFloats(const Tensor* list, const Tensor& operand, bool rows);
std::vector<int32_t> ExpandIntegers(const Tensor* list, const Tensor& operand, bool rows);

template <typename T>
std::vector<T> Expand(const Tensor* list, const Tensor& operand, bool rows) {
  const int rank = operand.rank();
  Shape dims(operand.shape().begin(), operand.shape().end());
  const size_t summed = static_cast<size_t>(rank == 1 ? 0 : rank - (rows ? 1 : 2));
  dims[summed] = 1;
  std::vector<T> result(static_cast<size_t>(NumElements(dims)), T{});
  if (list == nullptr || !list->has_value()) {
    return result;
  }
  // A list is one of the axis that stays.
  Shape strides(dims.size(), 0);
  const Shape own(list->shape().begin(), list->shape().end());
  const Shape dense = DenseStrides(own);
  for (size_t i = 0; i < own.size(); ++i) {
    const size_t from_right = own.size() == 1 && rows && rank > 1 ? 2 : own.size() - i;
    strides[dims.size() - from_right] = own[i] == 1 ? 0 : dense[i];
  }
  const std::vector<int64_t> offsets = Offsets(dims, strides);
  VisitDType(list->dtype(), [&](auto type) {
    using S = decltype(type);
    if constexpr (std::is_arithmetic_v<S>) {
      for (size_t i = 0; i < offsets.size(); ++i) {
        result[i] = static_cast<T>(list->data<S>()[offsets[i]]);
      }
    }
  });
  return result;
}

absl::Status CheckPerRow(const InputInfo& list, absl::string_view name, const PartialShape& operand,
                         bool rows) {
  if (list.dtype == DType::kUndefined || !list.shape.has_rank() || !operand.has_rank() ||
      list.shape.rank() == 0) {
    return absl::OkStatus();
  }
  bool fits = list.shape.rank() <= std::max(operand.rank(), 1);
  for (int axis = 0; fits && axis < list.shape.rank(); ++axis) {
    const int from_right = list.shape.rank() - axis;
    const bool summed = list.shape.rank() > 1 && from_right == (rows ? 1 : 2);
    const int its_own = list.shape.rank() == 1 && rows ? 2 : from_right;
    const int64_t extent =
        operand.rank() == 1 || summed ? 1 : operand.dim(operand.rank() - its_own);
    const int64_t dim = list.shape.dim(axis);
    fits = dim == 1 || MergeExtents(dim, extent).ok();
  }
  return fits ? absl::OkStatus()
              : Invalid(name, ": shape ", list.shape.ToString(),
                        " is neither one value nor one for ",
                        rows ? "each row of a" : "each column of b");
}

absl::Status CheckBytes(const InputInfo& input, absl::string_view name, const InputInfo& zero,
                        absl::string_view zero_name) {
  BW_RETURN_IF_ERROR(ExpectType(input, name, {DType::kI8, DType::kU8}));
  return zero.dtype == DType::kUndefined ? absl::OkStatus()
                                         : ExpectType(zero, zero_name, {input.dtype});
}

std::vector<float> ExpandFloats(const Tensor* list, const Tensor& operand, bool rows) {
  return Expand<float>(list, operand, rows);
}

std::vector<int32_t> ExpandIntegers(const Tensor* list, const Tensor& operand, bool rows) {
  return Expand<int32_t>(list, operand, rows);
}

}  // namespace

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

// The product of 8-bit matrices with all that follows it in a quantized layer, in one kernel: (a -
// a_zero) x (b - b_zero) in integers, times the scales of row and column, plus a bias, plus an
// addend.
//
// 1. The constructor packs b with its zero points (PackedIntegers) and keeps the scale and bias of
//    each column.
// 2. Run checks the shapes of the inputs that come at run time (CheckScaled; the packed ones keep
//    those of the load).
// 3. An addend of the product's shape is added as the sums leave the registers. Another one is
//    broadcast afterwards, by ApplyBinary.
//
// A missing bias is -0.0, since x + -0.0 is x for each x, zeros of both signs included.

namespace {

enum Input : size_t { kA, kB, kAZero, kBZero, kAScale, kBScale, kBias, kAddend, kNumInputs };

// What is packed into the kernel.
bool IsPacked(size_t index) {
  return index == kB || index == kBZero || index == kBScale || index == kBias;
}

absl::Status CheckScaled(absl::Span<const InputInfo> inputs, absl::Span<ValueInfo> outputs) {
  BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, kNumInputs, outputs));
  if (!Present(inputs, kAScale) || !Present(inputs, kBScale)) {
    return Invalid("a_scale and b_scale must be there");
  }
  const PartialShape& a = inputs[kA].shape;
  const PartialShape& b = inputs[kB].shape;
  BW_RETURN_IF_ERROR(CheckBytes(inputs[kA], "a", inputs[kAZero], "a_zero_point"));
  BW_RETURN_IF_ERROR(CheckBytes(inputs[kB], "b", inputs[kBZero], "b_zero_point"));
  BW_RETURN_IF_ERROR(CheckPerRow(inputs[kAZero], "a_zero_point", a, true));
  BW_RETURN_IF_ERROR(CheckPerRow(inputs[kBZero], "b_zero_point", b, false));
  BW_RETURN_IF_ERROR(ExpectType(inputs[kAScale], "a_scale", {DType::kF32}));
  BW_RETURN_IF_ERROR(ExpectType(inputs[kBScale], "b_scale", {DType::kF32}));
  BW_RETURN_IF_ERROR(CheckPerRow(inputs[kAScale], "a_scale", a, true));
  BW_RETURN_IF_ERROR(CheckPerRow(inputs[kBScale], "b_scale", b, false));
  BW_RETURN_IF_ERROR(ExpectRank(inputs[kB], "b", 2));
  if (a.has_rank() && a.rank() < 2) {
    return Invalid("a: shape ", a.ToString(), " must have two axes or more");
  }
  if (Present(inputs, kBias)) {
    BW_RETURN_IF_ERROR(ExpectType(inputs[kBias], "bias", {DType::kF32}));
    BW_RETURN_IF_ERROR(CheckPerRow(inputs[kBias], "bias", b, false));
  }
  outputs[0].dtype = DType::kF32;
  BW_ASSIGN_OR_RETURN(outputs[0].shape, ProductShape({}, a, b));
  if (Present(inputs, kAddend)) {
    BW_RETURN_IF_ERROR(ExpectType(inputs[kAddend], "addend", {DType::kF32}));
    BW_ASSIGN_OR_RETURN(outputs[0].shape,
                        BroadcastPartial(outputs[0].shape, inputs[kAddend].shape));
  }
  return absl::OkStatus();
}

class ScaledIntegerKernel final : public Kernel {
 public:
  explicit ScaledIntegerKernel(absl::Span<const InputInfo> inputs)
      : packed_(*inputs[kB].value, inputs[kBZero].value),
        column_scales_(ExpandFloats(inputs[kBScale].value, *inputs[kB].value, false)),
        bias_(column_scales_.size(), -0.0f) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      known_.push_back({inputs[i].dtype, inputs[i].shape});
    }
    if (Present(inputs, kBias)) {
      bias_ = ExpandFloats(inputs[kBias].value, *inputs[kB].value, false);
    }
  }

  bool NeedsInput(size_t index) const override { return !IsPacked(index); }

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    RuntimeInfos infos = DescribeInputs(inputs);
    for (size_t i = 0; i < infos.size(); ++i) {
      infos[i] = IsPacked(i) ? known_[i] : infos[i];
    }
    RuntimeResults results(outputs.size());
    BW_RETURN_IF_ERROR(CheckScaled(infos, absl::MakeSpan(results)));
    BW_RETURN_IF_ERROR(PrepareOutputs(results, outputs));
    const Tensor& a = *inputs[kA];
    const std::vector<int32_t> zeros = ExpandIntegers(InputOrNull(inputs, kAZero), a, true);
    const std::vector<float> row_scales = ExpandFloats(inputs[kAScale], a, true);
    SumScales scales{row_scales.data(), column_scales_.data(), bias_.data()};
    const Tensor* const addend = InputOrNull(inputs, kAddend);
    Shape shape = a.shape();
    shape.back() = packed_.columns();
    if (addend == nullptr || addend->shape() == shape) {
      scales.addend = addend == nullptr ? nullptr : addend->data<float>();
      packed_.Multiply(context.num_threads, a, zeros, scales, outputs[0].mutable_data<float>());
      return absl::OkStatus();
    }
    Tensor product(DType::kF32, std::move(shape));
    packed_.Multiply(context.num_threads, a, zeros, scales, product.mutable_data<float>());
    return ApplyBinary<float, float>(product, *addend, outputs[0],
                                     [](float x, float y) { return x + y; });
  }

 private:
  const PackedIntegers packed_;
  const std::vector<float> column_scales_;
  std::vector<float> bias_;       // one a column
  std::vector<InputInfo> known_;  // by input, without values
};

absl::Status InferScaled(const Node&, absl::Span<const InputInfo> inputs,
                         std::vector<ValueInfo>& outputs) {
  return CheckScaled(inputs, absl::MakeSpan(outputs));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeScaled(const KernelRequest& request) {
  for (const size_t i : {kB, kBZero, kBScale, kBias}) {
    if (Present(request.inputs, i) && request.inputs[i].value == nullptr) {
      return Invalid("b, its zero point and its scale, and the bias must be known at load");
    }
  }
  return std::make_unique<ScaledIntegerKernel>(request.inputs);
}

}  // namespace

// Rows have been separated when it is made, so this is never called.
constinit const OperatorCode kScaledIntegerProduct = {&InferScaled, &MakeScaled, &ExtentRows};

}  // namespace beamwright::ops
