// Operators that make tensors out of a few numbers, or of another tensor's values: Range, Eye,
// NonZero and OneHot.
//
// The extents of their outputs depend on values of their inputs. If a value is known at load,
// Shapes computes the extent; otherwise the extent stays open and is computed when the node runs.
// Files may ask for any size: more than 2^48 elements are an error of the node, which is found
// before memory is allocated. Integers are computed in 128 bits, so that no range overflows on its
// way to its count.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/numeric/int128.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

// Operators that make tensors out of a few numbers, or of another tensor's values.

namespace {

constexpr int64_t kMostElements = int64_t{1} << 48;

// start, stop and step as the output's type sees them: integers exactly, floats as f64.
//
// Example of the integers: start 2, stop 11, step 3 of i64 are 2, 5, 8: three elements. They are
// computed in 128 bits, so that stop - start cannot overflow whatever the type is.
template <typename Number>
struct Bounds {
  Number start = 0;
  Number stop = 0;
  Number step = 1;
};

// Values start, start + step, ... before stop; -1 if there are more than 2^48.
template <typename Number>
int64_t CountOf(const Bounds<Number>& bounds) {
  const Number distance = bounds.step > 0 ? bounds.stop - bounds.start : bounds.start - bounds.stop;
  const Number step = bounds.step > 0 ? bounds.step : -bounds.step;
  if (!(distance > 0)) {
    return 0;
  }
  Number count;
  if constexpr (std::is_same_v<Number, double>) {
    count = std::ceil(distance / step);
  } else {
    count = (distance + step - 1) / step;
  }
  return count > static_cast<Number>(kMostElements) ? -1 : static_cast<int64_t>(count);
}

// start, start + step, ... before stop. Each element is computed from its number, not from the
// element before it: rounding errors do not add up.
struct RangeOp {
  using Options = DType;  // kUndefined: that of the inputs (Range-1)
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(const std::string name, node.attributes.String("output_type", ""));
    if (name.empty()) {
      return DType::kUndefined;
    }
    const absl::StatusOr<DType> dtype = ParseDType(name);
    if (!dtype.ok() || *dtype == DType::kBool) {
      return Invalid("attribute output_type: '", name, "' is not a numeric type");
    }
    return *dtype;
  }

  // A number as f64, or as an integer (floats truncated). InvalidArgument where it is not finite
  // or does not fit the output's type.
  template <typename Number>
  static absl::StatusOr<Number> ReadNumber(const Tensor& value, absl::string_view name,
                                           DType dtype) {
    if constexpr (std::is_same_v<Number, double>) {
      BW_ASSIGN_OR_RETURN(const Tensor wide, Convert(value, DType::kF64));
      const double number = *wide.data<double>();
      // f32 is rounded first; narrower types are computed in f64 and rounded at the end.
      return dtype == DType::kF32 ? static_cast<double>(static_cast<float>(number)) : number;
    } else {
      absl::int128 number = 0;
      if (IsFloat(value.dtype())) {
        BW_ASSIGN_OR_RETURN(const Tensor wide, Convert(value, DType::kF64));
        const double real = std::trunc(*wide.data<double>());
        number = std::fabs(real) < 1e30 ? absl::int128(real) : absl::Int128Max();
      } else {
        number = value.dtype() == DType::kU64 ? absl::int128(*value.data<uint64_t>())
                                              : absl::int128(IntAt(value, 0));
      }
      BW_RETURN_IF_ERROR(VisitNumeric(dtype, [&](auto type) -> absl::Status {
        using Limits = std::numeric_limits<decltype(type)>;
        if constexpr (std::is_integral_v<decltype(type)>) {
          if (number < absl::int128(Limits::min()) || number > absl::int128(Limits::max())) {
            return Invalid(name, ": does not fit ", Name(dtype));
          }
        }
        return absl::OkStatus();
      }));
      return number;
    }
  }

  // True and the bounds, or false if one is not known yet.
  template <typename Number>
  static absl::StatusOr<bool> ReadBounds(DType dtype, absl::Span<const InputInfo> inputs,
                                         Bounds<Number>& bounds) {
    static constexpr absl::string_view kNames[] = {"start", "stop", "step"};
    Number* const targets[] = {&bounds.start, &bounds.stop, &bounds.step};
    bool known = true;
    for (size_t i = 0; i < 3; ++i) {
      if (inputs[i].value == nullptr || inputs[i].value->num_elements() != 1) {
        known = false;
        continue;
      }
      BW_ASSIGN_OR_RETURN(*targets[i], ReadNumber<Number>(*inputs[i].value, kNames[i], dtype));
      if constexpr (std::is_same_v<Number, double>) {
        if (!std::isfinite(*targets[i])) {
          return Invalid(kNames[i], ": ", *targets[i], " must be finite");
        }
      }
    }
    if (known && bounds.step == 0) {
      return Invalid("step: must not be 0");
    }
    return known;
  }

  static DType OutputType(DType dtype, DType input) {
    return dtype == DType::kUndefined ? input : dtype;
  }

  // The output's extent at load: from all three numbers, or open if one of them is not known.
  template <typename Number>
  static absl::Status SetCount(DType dtype, absl::Span<const InputInfo> inputs, ValueInfo& output) {
    Bounds<Number> bounds;
    BW_ASSIGN_OR_RETURN(const bool known, ReadBounds(dtype, inputs, bounds));
    const int64_t count = known ? CountOf(bounds) : 0;
    if (count < 0) {
      return Invalid("more than 2^48 elements from start to stop");
    }
    output.shape = known ? PartialShape({count}) : DynamicShape(1);
    return absl::OkStatus();
  }

  static absl::Status Shapes(Options dtype, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 3, 3, outputs));
    static constexpr absl::string_view kNames[] = {"start", "stop", "step"};
    for (size_t i = 0; i < 3; ++i) {
      BW_RETURN_IF_ERROR(ExpectType(inputs[i], kNames[i], kNumericTypes));
      if (dtype == DType::kUndefined) {
        BW_RETURN_IF_ERROR(ExpectType(inputs[i], kNames[i], {inputs[0].dtype}));
      }
      if (ListLength(inputs[i]) > 1 || (inputs[i].shape.has_rank() && inputs[i].shape.rank() > 1)) {
        return Invalid(kNames[i], ": shape ", inputs[i].shape.ToString(), " must be a scalar");
      }
    }
    outputs[0].dtype = OutputType(dtype, inputs[0].dtype);
    return IsFloat(outputs[0].dtype) ? SetCount<double>(outputs[0].dtype, inputs, outputs[0])
                                     : SetCount<absl::int128>(outputs[0].dtype, inputs, outputs[0]);
  }

  template <typename T, typename Number>
  static absl::Status Fill(absl::Span<const Tensor* const> inputs, Tensor& output) {
    Bounds<Number> bounds;
    BW_RETURN_IF_ERROR(ReadBounds(output.dtype(), DescribeInputs(inputs), bounds).status());
    for (int64_t i = 0; i < output.num_elements(); ++i) {
      output.mutable_data<T>()[i] =
          static_cast<T>(bounds.start + static_cast<Number>(i) * bounds.step);
    }
    return absl::OkStatus();
  }

  // Each element is start + i * step, not the sum of i steps: its error does not grow with i. f16
  // and bf16 are computed in f64 and rounded once.
  static absl::Status Compute(Options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    Tensor& output = outputs[0];
    if (IsHalf(output.dtype())) {
      Tensor wide(DType::kF64, output.shape());
      BW_RETURN_IF_ERROR((Fill<double, double>(inputs, wide)));
      BW_ASSIGN_OR_RETURN(output, Convert(wide, output.dtype()));
      return absl::OkStatus();
    }
    return VisitNumeric(output.dtype(), [&](auto type) {
      using T = decltype(type);
      if constexpr (std::is_integral_v<T>) {
        return Fill<T, absl::int128>(inputs, output);
      } else {
        return Fill<T, double>(inputs, output);
      }
    });
  }
};

// Matrices with ones on one diagonal: num_rows, num_columns, diagonal_index[, batch_shape].
struct EyeOp {
  using Options = DType;
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(const std::string name, node.attributes.String("output_type", ""));
    const absl::StatusOr<DType> dtype = ParseDType(name);
    if (!dtype.ok() || *dtype == DType::kBool) {
      return Invalid("attribute output_type: '", name, "' is not a numeric type");
    }
    return *dtype;
  }

  static absl::Status CheckExtent(absl::string_view name, int64_t extent) {
    return extent >= 0 && extent <= kMostElements
               ? absl::OkStatus()
               : Invalid(name, ": ", extent, " is negative or above 2^48");
  }

  static absl::Status Shapes(Options dtype, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 3, 4, outputs));
    static constexpr absl::string_view kNames[] = {"num_rows", "num_columns"};
    int64_t matrix[2];
    for (size_t i = 0; i < 2; ++i) {
      BW_ASSIGN_OR_RETURN(const std::optional<int64_t> extent, ReadInt(inputs[i], kNames[i]));
      matrix[i] = extent.value_or(PartialShape::kDynamic);
      if (extent.has_value()) {
        BW_RETURN_IF_ERROR(CheckExtent(kNames[i], *extent));
      }
    }
    BW_RETURN_IF_ERROR(ReadInt(inputs[2], "diagonal_index").status());
    outputs[0].dtype = dtype;
    outputs[0].shape = PartialShape();
    Ints batch;
    if (Present(inputs, 3)) {
      BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[3], "batch_shape", batch));
      if (!known && ListLength(inputs[3]) < 0) {
        return absl::OkStatus();
      }
      if (!known) {
        batch.assign(static_cast<size_t>(ListLength(inputs[3])), PartialShape::kDynamic);
      }
      for (const int64_t extent : batch) {
        BW_RETURN_IF_ERROR(known ? CheckExtent("batch_shape", extent) : absl::OkStatus());
      }
    }
    Shape dims(batch.begin(), batch.end());
    dims.insert(dims.end(), std::begin(matrix), std::end(matrix));
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  // Row i of a matrix has its one at column i + diagonal, if there is such a column: a diagonal of
  // 1 is the one above the main diagonal. Zeros of all types have zero bytes, hence memset.
  static absl::Status Compute(Options dtype, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    Tensor& output = outputs[0];
    if (output.num_elements() == 0) {
      return absl::OkStatus();
    }
    std::memset(output.mutable_bytes(), 0, static_cast<size_t>(output.num_bytes()));
    BW_ASSIGN_OR_RETURN(const Tensor one, Convert(Tensor::Scalar(1.0f), dtype));
    const int64_t rows = output.dim(output.rank() - 2);
    const int64_t columns = output.dim(output.rank() - 1);
    const int64_t diagonal = IntAt(*inputs[2], 0);
    VisitWord(dtype, [&](auto type) {
      using T = decltype(type);
      T* out = MutableWords<T>(output);
      for (int64_t i = 0; i < output.num_elements() / columns; ++i) {
        const int64_t row = i % rows;
        if (diagonal < columns && row + diagonal >= 0 && row + diagonal < columns) {
          out[i * columns + row + diagonal] = *Words<T>(one);
        }
      }
    });
    return absl::OkStatus();
  }
};

// The coordinates of the elements that are not 0: [rank of data, their number], in row-major order.
struct NonZeroOp {
  using Options = DType;
  static absl::StatusOr<Options> Parse(const Node& node) { return ParseIndexType(node); }

  // Calls found(position) for each element that is not 0, in row-major order. NaN is not 0.
  //
  // A position counts elements from 0; Compute turns it into coordinates from the last axis to the
  // first. Example: [2, 3] with elements 0 7 0 / 0 0 9 has positions 1 and 5, so the result is [[0,
  // 1], [1, 2]]: a line of rows, a line of columns.
  template <typename Found>
  static void ForEachNonZero(const Tensor& data, Found found) {
    VisitDType(data.dtype(), [&](auto type) {
      using T = decltype(type);
      for (int64_t i = 0; i < data.num_elements(); ++i) {
        if constexpr (std::is_arithmetic_v<T>) {
          if (data.data<T>()[i] != T{0}) {
            found(i);
          }
        } else if (ToFloat(data.data<T>()[i]) != 0.0f) {
          found(i);
        }
      }
    });
  }

  static absl::Status Shapes(Options dtype, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    outputs[0].dtype = dtype;
    int64_t count = PartialShape::kDynamic;
    if (inputs[0].value != nullptr) {
      count = 0;
      ForEachNonZero(*inputs[0].value, [&count](int64_t) { ++count; });
    }
    outputs[0].shape = PartialShape(
        {inputs[0].shape.has_rank() ? inputs[0].shape.rank() : PartialShape::kDynamic, count});
    return absl::OkStatus();
  }

  static absl::Status Compute(Options dtype, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    const int64_t count = outputs[0].dim(1);
    int64_t next = 0;
    ForEachNonZero(data, [&](int64_t position) {
      for (int axis = data.rank(); axis-- > 0;) {
        SetIndex(outputs[0], dtype, axis * count + next, position % data.dim(axis));
        position /= data.dim(axis);
      }
      ++next;
    });
    return absl::OkStatus();
  }
};

}  // namespace

constinit const OperatorCode kRange = CodeOf<RangeOp>(&ExtentRows);
constinit const OperatorCode kEye = CodeOf<EyeOp>(&ExtentRows);
constinit const OperatorCode kNonZero = CodeOf<NonZeroOp>(&ExtentRows);

// OneHot: a new axis of extent `depth`, on which the entry at each index has on_value and all
// others off_value. An index outside the depth sets no entry; with "normalize" negative ones count
// from the end. Compute fills the output with off_value, then writes one element for each index.

namespace {

struct OneHotOp {
  struct Options {
    int64_t axis = -1;
    bool from_end = false;  // negative indices count from the end of the new axis
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    if (!node.attributes.Has("axis")) {
      return Invalid("attribute axis is required");
    }
    BW_ASSIGN_OR_RETURN(options.axis, node.attributes.Int("axis", -1));
    BW_ASSIGN_OR_RETURN(std::string mode,
                        node.attributes.String("negative_indices_mode", "ignore_negative"));
    std::replace(mode.begin(), mode.end(), '-', '_');
    if (mode != "ignore_negative" && mode != "normalize") {
      return Invalid("attribute negative_indices_mode: '", mode,
                     "' is not supported, only ignore_negative and normalize");
    }
    options.from_end = mode == "normalize";
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 4, 4, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "indices", kIntegerTypes));
    BW_ASSIGN_OR_RETURN(const std::optional<int64_t> depth, ReadInt(inputs[1], "depth"));
    if (depth.value_or(0) < 0 || depth.value_or(0) > (int64_t{1} << 48)) {
      return Invalid("depth: ", *depth, " is negative or above 2^48");
    }
    BW_RETURN_IF_ERROR(ExpectType(inputs[3], "off_value", {inputs[2].dtype}));
    static constexpr absl::string_view kNames[] = {"on_value", "off_value"};
    for (size_t i = 0; i < 2; ++i) {
      const PartialShape& shape = inputs[i + 2].shape;
      if (shape.has_rank() && std::abs(PartialProduct(shape.dims())) != 1) {
        return Invalid(kNames[i], ": shape ", shape.ToString(), " must be a scalar");
      }
    }
    outputs[0].dtype = inputs[2].dtype;
    outputs[0].shape = PartialShape();
    const PartialShape& indices = inputs[0].shape;
    if (!indices.has_rank()) {
      return absl::OkStatus();
    }
    const absl::StatusOr<int> axis = NormalizeAxis(options.axis, indices.rank() + 1);
    if (!axis.ok()) {
      return Annotate(axis.status(), "attribute axis");
    }
    Shape dims = indices.dims();
    dims.insert(dims.begin() + *axis, depth.value_or(PartialShape::kDynamic));
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  // The indices are [outer, inner] around the new axis, the output [outer, depth, inner]: index
  // number i = outer * inner_extent + inner writes place (outer * depth + index) * inner_extent +
  // inner. With indices [2, 3], axis 1 and depth 4, index number 4, at (1, 1), whose value is 2,
  // writes place (1 * 4 + 2) * 3 + 1 = 19 of [2, 4, 3].
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& indices = *inputs[0];
    Tensor& output = outputs[0];
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(options.axis, output.rank()));
    const int64_t depth = output.dim(axis);
    const int64_t inner = Product(output.shape(), axis + 1, output.rank());
    VisitWord(output.dtype(), [&](auto type) {
      using T = decltype(type);
      T* out = MutableWords<T>(output);
      std::fill(out, out + output.num_elements(), *Words<T>(*inputs[3]));
      for (int64_t i = 0; i < indices.num_elements(); ++i) {
        int64_t index = IntAt(indices, i);
        index += options.from_end && index < 0 ? depth : 0;
        if (index >= 0 && index < depth) {
          out[(i / inner * depth + index) * inner + i % inner] = *Words<T>(*inputs[2]);
        }
      }
    });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    if (!OnlyFirstHasRows(rows).has_value() || !inputs[0].shape.has_rank()) {
      return kMixedRows;
    }
    const absl::StatusOr<int> axis =
        NormalizeAxis(node.attributes.Int("axis", -1).value_or(-1), inputs[0].shape.rank() + 1);
    return axis.ok() ? RowsAt(rows[0].axis + (rows[0].axis >= *axis ? 1 : 0), rows[0].factor)
                     : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kOneHot = CodeOf<OneHotOp>(&OneHotOp::Rows);

}  // namespace beamwright::ops
