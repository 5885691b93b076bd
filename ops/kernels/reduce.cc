// Reductions of any axes by any of nine functions.
//
// 1. Compute splits the axes into kept and reduced ones (Plan), each as extents and strides;
//    ForEachRun walks them without a copy of the data.
// 2. ReduceAll goes over the results and ReduceOne over the elements of one. Element i of the
//    reduced axes, in row-major order, goes to lane i mod 16; the lanes are joined in a fixed tree.
//    Which axes are contiguous in memory, or how many results there are, changes no bit.
// 3. Term is what an element adds (x, |x|, x * x), Join combines two partial results, and the mean
//    and the root come last. Integers are added in 64 bits and wrap; 16-bit floats were widened to
//    f32 before (operator_code.h).
// 4. Sums of at most kFew floats, such as the taps of a convolution, have loops across results
//    (SumFewAcross): the same additions, vectorized over the results.
//
// Example: [2, 3, 4] over axes 0 and 2 has kept extents {3} with strides {4}, reduced extents {2,
// 4} with strides {12, 1}. Result j takes elements 4 j + 12 a + b; element number i = 4 a + b goes
// to lane i.
//
// Softmax is at the end of the file.
#include "ops/kernels/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ops/kernels/inputs.h"
#include "ops/kernels/math.h"
#include "ops/kernels/strided_copy.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
namespace {

enum class Function { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kAnd, kOr };

// The accumulator for elements of type T. Integers need 64 bits for their mean; a sum or product
// cut to T at the end is the same as one that wraps at every step.
template <typename T>
struct AccumulatorOf {
  using type = std::conditional_t<std::is_unsigned_v<T>, uint64_t, int64_t>;
};
template <>
struct AccumulatorOf<float> {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
template <>
struct AccumulatorOf<bool> {
  using type = bool;
};

template <typename T, Function kFunction>
constexpr typename AccumulatorOf<T>::type Start() {
  using Limits = std::numeric_limits<T>;
  switch (kFunction) {
    case Function::kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Function::kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case Function::kProd:
    case Function::kAnd:
      return 1;
    default:
      return 0;
  }
}

// Joins two accumulators of type A; kMean, kL1 and kL2 add.
template <Function kFunction, typename A>
A Join(A a, A b) {
  if constexpr (kFunction == Function::kMax) {
    return b > a || b != b ? b : a;  // NaN stays
  } else if constexpr (kFunction == Function::kMin) {
    return b < a || b != b ? b : a;
  } else if constexpr (kFunction == Function::kAnd) {
    return a && b;
  } else if constexpr (kFunction == Function::kOr) {
    return a || b;
  } else {
    using U = WrapType<A>;
    const U left = static_cast<U>(a);
    const U right = static_cast<U>(b);
    return static_cast<A>(kFunction == Function::kProd ? left * right : left + right);
  }
}

// What an element adds to an accumulator.
template <Function kFunction, typename A>
A Term(A value) {
  if constexpr (kFunction == Function::kL1) {
    return value < A{0} ? static_cast<A>(-static_cast<WrapType<A>>(value)) : value;
  } else if constexpr (kFunction == Function::kL2) {
    return static_cast<A>(static_cast<WrapType<A>>(value) * static_cast<WrapType<A>>(value));
  } else {
    return value;
  }
}

// One element of the result: element i of the reduced axes (row-major) goes to lane i mod kLanes.
//
// Whole groups of kLanes in a run that begins at lane 0 are a loop that the compiler vectorizes;
// what is left goes element by element to the lanes that follow, so that the lane of an element is
// the same either way. The tree at the end joins lanes i and i + 8, then i and i + 4, and so on.
template <typename T, Function kFunction>
typename AccumulatorOf<T>::type ReduceOne(const T* data, const StridedAxes& reduced) {
  using A = typename AccumulatorOf<T>::type;
  const auto take = [](A lane, T value) {
    return Join<kFunction, A>(lane, Term<kFunction, A>(value));
  };
  A lanes[kLanes];
  std::fill(lanes, lanes + kLanes, Start<T, kFunction>());
  int first = 0;
  ForEachRun(reduced, [&](int64_t offset, int64_t count, int64_t stride) {
    const T* run = data + offset;
    int64_t i = 0;
    if (first == 0 && stride == 1) {
      for (; i + kLanes <= count; i += kLanes) {
        for (int lane = 0; lane < kLanes; ++lane) {
          lanes[lane] = take(lanes[lane], run[i + lane]);
        }
      }
    }
    for (; i < count; ++i) {
      lanes[first] = take(lanes[first], run[i * stride]);
      first = (first + 1) % kLanes;
    }
  });
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      lanes[i] = Join<kFunction, A>(lanes[i], lanes[i + width]);
    }
  }
  return lanes[0];
}

struct Plan {
  StridedAxes kept;
  StridedAxes reduced;
};

constexpr int64_t kFew = 4;

// Whether each result is the sum of a few floats that are equally far apart, such as the taps of a
// convolution.
template <typename T, Function kFunction>
bool FewFloats(const StridedAxes& reduced) {
  return std::is_same_v<T, float> &&
         (kFunction == Function::kSum || kFunction == Function::kMean) &&
         reduced.extents.size() == 1 && reduced.count > 0 && reduced.count <= kFew;
}

// The result of ReduceOne for few elements: its empty lanes add 0, which changes no number but -0,
// and lanes here are never -0.
template <typename T>
T SumFew(const T* data, int64_t count) {
  T lanes[kFew] = {};
  for (int64_t i = 0; i < count; ++i) {
    lanes[i] = T{0} + data[i];
  }
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

// The same for `count` results whose elements lie side by side, those of one result kCount times
// `stride` apart: as the sums over pairs of steps in a zipformer.
template <int kCount, bool kMean>
void SumFewAcross(const float* data, int64_t stride, int64_t count, float* out) {
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (int64_t i = 0; i < count; ++i) {
      float lanes[kFew] = {};
      for (int lane = 0; lane < kCount; ++lane) {
        lanes[lane] = 0.0f + data[i + lane * stride];
      }
      const float sum = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
      out[i] = kMean ? sum / static_cast<float>(kCount) : sum;
    }
  });
}

template <bool kMean>
void SumFewAcross(const StridedAxes& reduced, const float* data, int64_t count, float* out) {
  static constexpr decltype(&SumFewAcross<1, kMean>) kByCount[] = {
      nullptr, &SumFewAcross<1, kMean>, &SumFewAcross<2, kMean>, &SumFewAcross<3, kMean>,
      &SumFewAcross<kFew, kMean>};
  kByCount[reduced.count](data, reduced.strides[0], count, out);
}

// Results are in the order of the kept axes, so `out` only moves forward. For each result: a few
// floats side by side (SumFew), or any number (ReduceOne). Where results lie side by side and each
// has a few floats, a whole run of results is one loop (SumFewAcross).
template <typename T, Function kFunction>
absl::Status ReduceAll(const Tensor& input, const Plan& plan, Tensor& output) {
  using A = typename AccumulatorOf<T>::type;
  const T* in = input.data<T>();
  T* out = output.mutable_data<T>();
  const bool has_few = FewFloats<T, kFunction>(plan.reduced);
  const bool sums_few = has_few && plan.reduced.strides[0] == 1;
  ForEachRun(plan.kept, [&](int64_t offset, int64_t count, int64_t stride) {
    if constexpr (std::is_same_v<T, float>) {
      if (has_few && stride == 1) {
        SumFewAcross<kFunction == Function::kMean>(plan.reduced, in + offset, count, out);
        out += count;
        return;
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      const T* const from = in + offset + i * stride;
      A value;
      if constexpr (std::is_same_v<T, float>) {
        value = !sums_few                    ? ReduceOne<T, kFunction>(from, plan.reduced)
                : plan.reduced.count == kFew ? SumFew(from, kFew)
                                             : SumFew(from, plan.reduced.count);
      } else {
        value = ReduceOne<T, kFunction>(from, plan.reduced);
      }
      if constexpr (kFunction == Function::kMean) {
        value = static_cast<A>(value / static_cast<A>(plan.reduced.count));
      } else if constexpr (kFunction == Function::kL2) {
        value = std::sqrt(value);
      }
      *out++ = static_cast<T>(value);
    }
  });
  return absl::OkStatus();
}

template <typename T>
absl::Status ReduceNumbers(Function function, const Tensor& input, const Plan& plan,
                           Tensor& output) {
  switch (function) {
    case Function::kMax:
      return ReduceAll<T, Function::kMax>(input, plan, output);
    case Function::kMin:
      return ReduceAll<T, Function::kMin>(input, plan, output);
    case Function::kProd:
      return ReduceAll<T, Function::kProd>(input, plan, output);
    case Function::kL1:
      return ReduceAll<T, Function::kL1>(input, plan, output);
    case Function::kMean:
      if (std::is_integral_v<T> && plan.reduced.count == 0 && output.num_elements() > 0) {
        return Invalid("data: the mean of no integers is not defined");
      }
      return ReduceAll<T, Function::kMean>(input, plan, output);
    default:
      return ReduceAll<T, Function::kSum>(input, plan, output);
  }
}

// The square root of a sum of squares; of integers computed in f64 and truncated.
absl::Status ReduceL2(const Tensor& input, const Plan& plan, Tensor& output) {
  if (input.dtype() == DType::kF32) {
    return ReduceAll<float, Function::kL2>(input, plan, output);
  }
  BW_ASSIGN_OR_RETURN(const Tensor wide, Convert(input, DType::kF64));
  Tensor result(DType::kF64, output.shape());
  BW_RETURN_IF_ERROR((ReduceAll<double, Function::kL2>(wide, plan, result)));
  BW_ASSIGN_OR_RETURN(output, Convert(result, output.dtype()));
  return absl::OkStatus();
}

struct ReduceOp {
  struct Options {
    Function function = Function::kSum;
    bool keep_dims = false;
  };

  static absl::StatusOr<Options> Parse(const Node& node) {
    static const auto& functions = *new std::map<std::string, Function>{
        {"ReduceSum", Function::kSum},     {"ReduceMean", Function::kMean},
        {"ReduceMax", Function::kMax},     {"ReduceMin", Function::kMin},
        {"ReduceProd", Function::kProd},   {"ReduceL1", Function::kL1},
        {"ReduceL2", Function::kL2},       {"ReduceLogicalAnd", Function::kAnd},
        {"ReduceLogicalOr", Function::kOr}};
    const auto found = functions.find(node.op);
    if (found == functions.end()) {
      return Invalid("'", node.op, "' is not a reduction");
    }
    Options options{found->second};
    BW_ASSIGN_OR_RETURN(options.keep_dims, node.attributes.Bool("keep_dims", false));
    return options;
  }
  static bool WidensHalves(const Options&) { return true; }
  static bool IsLogical(Function function) {
    return function == Function::kAnd || function == Function::kOr;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    BW_RETURN_IF_ERROR(IsLogical(options.function) ? ExpectType(inputs[0], "data", {DType::kBool})
                                                   : ExpectType(inputs[0], "data", kNumericTypes));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    const PartialShape& shape = inputs[0].shape;
    if (!shape.has_rank()) {
      return ExpectType(inputs[1], "axes", kIntegerTypes);
    }
    BW_ASSIGN_OR_RETURN(const std::optional<Ints> axes, ReadAxes(inputs[1], "axes", shape.rank()));
    if (!axes.has_value()) {
      const int64_t length = ListLength(inputs[1]);
      outputs[0].shape = options.keep_dims ? DynamicShape(shape.rank())
                         : length >= 0 && length <= shape.rank()
                             ? DynamicShape(shape.rank() - static_cast<int>(length))
                             : PartialShape();
      return absl::OkStatus();
    }
    Shape dims;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (!Contains(*axes, axis)) {
        dims.push_back(shape.dim(axis));
      } else if (options.keep_dims) {
        dims.push_back(1);
      }
    }
    outputs[0].shape = PartialShape(std::move(dims));
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
    const Shape strides = DenseStrides(input.shape());
    Plan plan;
    for (int axis = 0; axis < input.rank(); ++axis) {
      (Contains(axes, axis) ? plan.reduced : plan.kept)
          .Add(input.dim(axis), strides[static_cast<size_t>(axis)]);
    }
    switch (options.function) {
      case Function::kAnd:
        return ReduceAll<bool, Function::kAnd>(input, plan, outputs[0]);
      case Function::kOr:
        return ReduceAll<bool, Function::kOr>(input, plan, outputs[0]);
      case Function::kL2:
        return ReduceL2(input, plan, outputs[0]);
      default:
        return VisitNumeric(input.dtype(), [&](auto type) {
          return ReduceNumbers<decltype(type)>(options.function, input, plan, outputs[0]);
        });
    }
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return node.attributes.Bool("keep_dims", false).value_or(false) ? RowsBesideAxes(rows, inputs)
                                                                    : RowsWithoutAxes(rows, inputs);
  }
};

}  // namespace

constinit const OperatorCode kReduce = CodeOf<ReduceOp>(&ReduceOp::Rows);

// Softmax and LogSoftmax over one axis (SoftmaxSlice): the largest element is found, and
// subtracted, so that no exponential overflows; the sum is taken in 16 lanes (LaneSum), in an order
// that does not depend on the CPU.

namespace {

// One slice: `count` elements `stride` apart. kStride is 1 where the compiler should know it.
template <bool kContiguous, bool kLog, typename T>
BW_ALWAYS_INLINE inline void SoftmaxSlice(const T* in, T* out, int64_t count, int64_t stride) {
  const auto at = [stride](int64_t i) BW_ALWAYS_INLINE { return kContiguous ? i : i * stride; };
  // In lanes, which the compiler makes vectors of; which of equal numbers is found changes no bit.
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, -std::numeric_limits<T>::infinity());
  int64_t first = 0;
  for (; first + kLanes <= count; first += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const T x = in[at(first + lane)];
      lanes[lane] = x > lanes[lane] ? x : lanes[lane];
    }
  }
  T largest = -std::numeric_limits<T>::infinity();
  for (; first < count; ++first) {
    largest = in[at(first)] > largest ? in[at(first)] : largest;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    largest = lanes[lane] > largest ? lanes[lane] : largest;
  }
  if constexpr (kLog) {
    const T sum =
        LaneSum(count, [&](int64_t i) BW_ALWAYS_INLINE { return Exp(in[at(i)] - largest); });
    const T log_sum = Log(sum);
    for (int64_t i = 0; i < count; ++i) {
      out[at(i)] = (in[at(i)] - largest) - log_sum;
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      out[at(i)] = Exp(in[at(i)] - largest);
    }
    const T sum = LaneSum(count, [&](int64_t i) BW_ALWAYS_INLINE { return out[at(i)]; });
    for (int64_t i = 0; i < count; ++i) {
      out[at(i)] = out[at(i)] / sum;
    }
  }
}

// Slices are numbered as the elements of the other axes: with [2, 3, 4] and axis 1, count is 3 and
// stride 4, and slice 5 begins at 5 / 4 * 12 + 5 % 4 = 13.
template <typename T, bool kLog>
absl::Status SoftmaxAll(const Tensor& input, int axis, Tensor& output) {
  const int64_t count = input.dim(axis);
  int64_t stride = 1;
  for (int i = axis + 1; i < input.rank(); ++i) {
    stride *= input.dim(i);
  }
  if (input.num_elements() == 0) {
    return absl::OkStatus();
  }
  const int64_t slices = input.num_elements() / count;
  for (int64_t slice = 0; slice < slices; ++slice) {
    const int64_t start = slice / stride * (count * stride) + slice % stride;
    const T* in = input.data<T>() + start;
    T* out = output.mutable_data<T>() + start;
    if (stride == 1) {
      Vectorized([&]() BW_ALWAYS_INLINE { SoftmaxSlice<true, kLog>(in, out, count, 1); });
    } else {
      SoftmaxSlice<false, kLog>(in, out, count, stride);
    }
  }
  return absl::OkStatus();
}

struct SoftmaxOp {
  struct Options {
    int64_t axis = 1;
    bool log = false;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.axis, node.attributes.Int("axis", 1));
    options.log = node.op == "LogSoftmax";
    return options;
  }
  static bool WidensHalves(const Options&) { return true; }
  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "data", kFloatTypes));
    if (inputs[0].shape.has_rank()) {
      BW_RETURN_IF_ERROR(NormalizeAxis(options.axis, inputs[0].shape.rank()).status());
    }
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(options.axis, inputs[0]->rank()));
    return VisitFloat(inputs[0]->dtype(), [&](auto type) {
      using T = decltype(type);
      return options.log ? SoftmaxAll<T, true>(*inputs[0], axis, outputs[0])
                         : SoftmaxAll<T, false>(*inputs[0], axis, outputs[0]);
    });
  }
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return RowsBesideAxis(node.attributes.Int("axis", 1).value_or(1), rows, inputs);
  }
};

}  // namespace

constinit const OperatorCode kSoftmax = CodeOf<SoftmaxOp>(&SoftmaxOp::Rows);

}  // namespace beamwright::ops
