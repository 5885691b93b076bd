#include "ops/kernels/reduce.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "ops/kernels/inputs.h"
#include "ops/kernels/math.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

enum class Function { kSum, kMean, kMax, kMin, kProd };

// The axes of a tensor in two groups, outermost first, as extents and strides.
struct Axes {
  Shape extents;
  Shape strides;
  int64_t count = 1;

  void Add(int64_t extent, int64_t stride) {
    count *= extent;
    // Runs on from the axis before: one longer axis.
    if (!extents.empty() && strides.back() == stride * extent) {
      extents.back() *= extent;
      strides.back() = stride;
    } else {
      extents.push_back(extent);
      strides.push_back(stride);
    }
  }
};

// Calls row(offset, count, stride) for each innermost run.
template <typename Row>
void ForEachRun(const Axes& axes, Row row) {
  if (axes.count == 0) {
    return;
  }
  if (axes.extents.empty()) {
    return row(int64_t{0}, int64_t{1}, int64_t{1});
  }
  const size_t inner = axes.extents.size() - 1;
  Shape index(axes.extents.size(), 0);
  int64_t offset = 0;
  for (int64_t done = 0; done < axes.count; done += axes.extents[inner]) {
    row(offset, axes.extents[inner], axes.strides[inner]);
    for (size_t axis = inner; axis-- > 0;) {
      offset += axes.strides[axis];
      if (++index[axis] < axes.extents[axis]) {
        break;
      }
      offset -= axes.strides[axis] * axes.extents[axis];
      index[axis] = 0;
    }
  }
}

template <typename T>
struct Arithmetic {
  using type = T;
};
template <>
struct Arithmetic<int32_t> {
  using type = uint32_t;
};
template <>
struct Arithmetic<int64_t> {
  using type = uint64_t;
};

template <typename T>
T Identity(Function function) {
  using Limits = std::numeric_limits<T>;
  switch (function) {
    case Function::kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Function::kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case Function::kProd:
      return 1;
    default:
      return 0;
  }
}

template <typename T>
T Combine(Function function, T a, T b) {
  using U = typename Arithmetic<T>::type;
  switch (function) {
    case Function::kMax:
      return b > a || b != b ? b : a;  // NaN stays
    case Function::kMin:
      return b < a || b != b ? b : a;
    case Function::kProd:
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    default:
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
}

// One element of the result: element i of the reduced axes (row-major) goes to lane i mod kLanes.
template <typename T, Function kFunction>
T ReduceOne(const T* data, const Axes& reduced) {
  T lanes[kLanes];
  std::fill(lanes, lanes + kLanes, Identity<T>(kFunction));
  int first = 0;
  ForEachRun(reduced, [&](int64_t offset, int64_t count, int64_t stride) {
    const T* run = data + offset;
    int64_t i = 0;
    if (first == 0 && stride == 1) {
      for (; i + kLanes <= count; i += kLanes) {
        for (int lane = 0; lane < kLanes; ++lane) {
          lanes[lane] = Combine(kFunction, lanes[lane], run[i + lane]);
        }
      }
    }
    for (; i < count; ++i) {
      lanes[first] = Combine(kFunction, lanes[first], run[i * stride]);
      first = (first + 1) % kLanes;
    }
  });
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      lanes[i] = Combine(kFunction, lanes[i], lanes[i + width]);
    }
  }
  return lanes[0];
}

template <typename T, Function kFunction>
void ReduceAll(const Tensor& input, const Axes& kept, const Axes& reduced, Tensor& output) {
  const T* in = input.data<T>();
  T* out = output.mutable_data<T>();
  ForEachRun(kept, [&](int64_t offset, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; ++i) {
      *out++ = ReduceOne<T, kFunction>(in + offset + i * stride, reduced);
    }
  });
}

struct ReduceOp {
  struct Options {
    Function function = Function::kSum;
    bool keep_dims = false;
  };

  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.keep_dims, node.attributes.Bool("keep_dims", false));
    const absl::string_view op = node.op;
    options.function = op == "ReduceSum"    ? Function::kSum
                       : op == "ReduceMean" ? Function::kMean
                       : op == "ReduceMax"  ? Function::kMax
                       : op == "ReduceMin"  ? Function::kMin
                                            : Function::kProd;
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "data", {DType::kF32, DType::kI64, DType::kI32}));
    Ints axes;
    BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[1], "axes", axes));
    outputs[0].dtype = inputs[0].dtype;
    const PartialShape& shape = inputs[0].shape;
    if (!shape.has_rank()) {
      outputs[0].shape = PartialShape();
      return absl::OkStatus();
    }
    if (!known) {
      const int64_t length = ListLength(inputs[1]);
      outputs[0].shape = options.keep_dims ? DynamicShape(shape.rank())
                         : length >= 0 && length <= shape.rank()
                             ? DynamicShape(shape.rank() - static_cast<int>(length))
                             : PartialShape();
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const Ints normal, NormalizeAxes(axes, shape.rank()));
    Shape dims;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (std::find(normal.begin(), normal.end(), axis) == normal.end()) {
        dims.push_back(shape.dim(axis));
      } else if (options.keep_dims) {
        dims.push_back(1);
      }
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  template <typename T>
  static absl::Status Run(Function function, const Tensor& input, const Axes& kept,
                          const Axes& reduced, Tensor& output) {
    switch (function) {
      case Function::kMax:
        ReduceAll<T, Function::kMax>(input, kept, reduced, output);
        return absl::OkStatus();
      case Function::kMin:
        ReduceAll<T, Function::kMin>(input, kept, reduced, output);
        return absl::OkStatus();
      case Function::kProd:
        ReduceAll<T, Function::kProd>(input, kept, reduced, output);
        return absl::OkStatus();
      default:
        ReduceAll<T, Function::kSum>(input, kept, reduced, output);
    }
    if (function == Function::kMean) {
      if (std::is_integral_v<T> && reduced.count == 0 && output.num_elements() > 0) {
        return Invalid("data: the mean of no integers is not defined");
      }
      T* out = output.mutable_data<T>();
      for (int64_t i = 0; i < output.num_elements(); ++i) {
        out[i] = static_cast<T>(out[i] / static_cast<T>(reduced.count));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& input = *inputs[0];
    Ints axes;
    for (int64_t i = 0; i < inputs[1]->num_elements(); ++i) {
      axes.push_back(IntAt(*inputs[1], i));
    }
    BW_ASSIGN_OR_RETURN(axes, NormalizeAxes(axes, input.rank()));
    Shape strides(input.shape().size(), 1);
    for (int axis = input.rank() - 2; axis >= 0; --axis) {
      strides[static_cast<size_t>(axis)] =
          strides[static_cast<size_t>(axis) + 1] * input.dim(axis + 1);
    }
    Axes kept;
    Axes reduced;
    for (int axis = 0; axis < input.rank(); ++axis) {
      const bool is_reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
      (is_reduced ? reduced : kept).Add(input.dim(axis), strides[static_cast<size_t>(axis)]);
    }
    switch (input.dtype()) {
      case DType::kF32:
        return Run<float>(options.function, input, kept, reduced, outputs[0]);
      case DType::kI64:
        return Run<int64_t>(options.function, input, kept, reduced, outputs[0]);
      default:
        return Run<int32_t>(options.function, input, kept, reduced, outputs[0]);
    }
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    Ints axes;
    if (!OnlyFirstHasRows(rows).has_value() || !inputs[0].shape.has_rank() ||
        !ReadInts(inputs[1], "axes", axes).value_or(false)) {
      return kMixedRows;
    }
    const absl::StatusOr<Ints> normal = NormalizeAxes(axes, inputs[0].shape.rank());
    const int axis = rows[0].axis;
    if (!normal.ok() || std::find(normal->begin(), normal->end(), axis) != normal->end()) {
      return kMixedRows;
    }
    const auto before = std::count_if(normal->begin(), normal->end(),
                                      [axis](int64_t reduced) { return reduced < axis; });
    const bool keeps = node.attributes.Bool("keep_dims", false).value_or(false);
    return RowsAt(keeps ? axis : axis - static_cast<int>(before), rows[0].factor);
  }
};

}  // namespace

constinit const OperatorCode kReduce = CodeOf<ReduceOp>(&ReduceOp::Rows);

}  // namespace beamwright::ops
