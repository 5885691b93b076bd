// Four normalizations, each a struct with Parse, Shapes, Compute and Rows (operator_code.h):
//
//   BatchNormOp     per channel, with given mean and variance: one multiplication and addition each
//   MvnOp           groups over `axes`: (x - mean) / deviation, both computed of the group
//   NormalizeL2Op   groups over `axes`: x / sqrt(sum of squares)
//   GroupNormOp     MVN of [N * groups, elements], then scale and bias by channel
//
// Groups cuts the data: axes that are not reduced give the starts of groups, reduced axes the
// offsets of elements from a start. For [2, 3, 4] over axes {0, 2}: 3 starts (0, 4, 8), and 8
// offsets (0..3, 12..15).
//
// 1. The sum over a group goes in the order of the data (Sum), for f32 in 16 lanes, so that
//    vectorized and plain code have the same bits. 2. Deviations are taken from the computed mean
//    in a second pass, which is more exact than sums of squares.
// 3. Rows: a group must not hold elements of two rows, so the axis of rows may not be among the
//    reduced axes.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/math.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/strided_copy.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
namespace {

absl::Status ExpectFloats(const InputInfo& input, absl::string_view name) {
  return ExpectType(input, name, {DType::kF32, DType::kF16, DType::kBF16, DType::kF64});
}

absl::StatusOr<double> ParseEpsilon(const Node& node, const std::string& name, double fallback) {
  BW_ASSIGN_OR_RETURN(const double epsilon, node.attributes.Float(name, fallback));
  if (!(epsilon >= 0) || !std::isfinite(epsilon)) {
    return Invalid("attribute ", name, ": ", epsilon, " must be finite and not negative");
  }
  return epsilon;
}

// A list of per-channel values next to data, which has rank 2 or more.
absl::Status CheckPerChannel(const InputInfo& data, const InputInfo& list, absl::string_view name,
                             int64_t& channels) {
  if (list.dtype != data.dtype) {
    return Invalid(name, ": element type ", Name(list.dtype), " is not that of data, ",
                   Name(data.dtype));
  }
  BW_RETURN_IF_ERROR(ExpectRank(list, name, 1));
  const absl::StatusOr<int64_t> merged =
      MergeExtents(channels, list.shape.has_rank() ? list.shape.dim(0) : PartialShape::kDynamic);
  if (!merged.ok()) {
    return Invalid(name, ": has ", list.shape.dim(0), " elements for ", channels, " channels");
  }
  channels = *merged;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ChannelsOf(const InputInfo& data) {
  if (!data.shape.has_rank()) {
    return PartialShape::kDynamic;
  }
  if (data.shape.rank() < 2) {
    return Invalid("data: shape ", data.shape.ToString(), " must have rank 2 or more");
  }
  return data.shape.dim(1);
}

template <typename T, typename Value>
T Sum(int64_t count, Value value) {
  if constexpr (std::is_same_v<T, float>) {
    return LaneSum(count, value);
  } else {
    T sum{};
    for (int64_t i = 0; i < count; ++i) {
      sum += value(i);
    }
    return sum;
  }
}

// Calls body(T()) with float or double.
template <typename Body>
void VisitReal(DType dtype, Body body) {
  if (dtype == DType::kF64) {
    body(double{});
  } else {
    body(float{});
  }
}

// Data cut into groups over `axes`; a group's elements in the order of the data.
class Groups {
 public:
  Groups(const Shape& shape, const Ints& axes) {
    const Shape strides = DenseStrides(shape);
    Shape dims[2], steps[2];  // kept, grouped
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const bool grouped =
          std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
      dims[grouped].push_back(shape[axis]);
      steps[grouped].push_back(strides[axis]);
    }
    starts_ = Offsets(dims[0], steps[0]);
    elements_ = Offsets(dims[1], steps[1]);
  }

  // Calls group(at, count) for each, where at(i) is the offset of its i-th element.
  //
  // Groups are shared among threads, never the elements of one group: its sum has one order. Some
  // four operations for each element are the work by which the number of threads is chosen.
  template <typename Group>
  void ForEach(int num_threads, Group group) const {
    const int64_t count = static_cast<int64_t>(elements_.size());
    const int64_t num_groups = static_cast<int64_t>(starts_.size());
    ParallelFor(num_threads, num_groups, 4 * num_groups * count, [&](int64_t g) {
      const int64_t start = starts_[static_cast<size_t>(g)];
      const int64_t* elements = elements_.data();
      group([start, elements](int64_t i) { return start + elements[i]; }, count);
    });
  }

 private:
  std::vector<int64_t> starts_, elements_;
};

struct BatchNormOp {
  using Options = double;  // epsilon
  static absl::StatusOr<Options> Parse(const Node& node) {
    return ParseEpsilon(node, "epsilon", 0);
  }

  // Version 1 has data behind gamma and beta, which have rank 1.
  static bool IsVersion1(absl::Span<const InputInfo> inputs) {
    return inputs[0].shape.has_rank() && inputs[0].shape.rank() == 1;
  }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 5, 5, outputs));
    const bool old = IsVersion1(inputs);
    const InputInfo& data = inputs[old ? 2 : 0];
    BW_RETURN_IF_ERROR(ExpectFloats(data, "data"));
    BW_ASSIGN_OR_RETURN(int64_t channels, ChannelsOf(data));
    BW_RETURN_IF_ERROR(CheckPerChannel(data, inputs[old ? 0 : 1], "gamma", channels));
    BW_RETURN_IF_ERROR(CheckPerChannel(data, inputs[old ? 1 : 2], "beta", channels));
    BW_RETURN_IF_ERROR(CheckPerChannel(data, inputs[3], "mean", channels));
    BW_RETURN_IF_ERROR(CheckPerChannel(data, inputs[4], "variance", channels));
    outputs[0].dtype = data.dtype;
    outputs[0].shape = data.shape;
    return absl::OkStatus();
  }

  // Data [N, C, ...] are N * C planes of one channel each, whose elements lie together; each plane
  // has one scale. `size` is the number of elements of a plane.
  static absl::Status Compute(const Options& epsilon, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const bool old = inputs[0]->rank() == 1;
    const Tensor& data = *inputs[old ? 2 : 0];
    const int64_t planes = data.dim(0) * data.dim(1);
    if (data.num_elements() == 0) {
      return absl::OkStatus();
    }
    const int64_t size = data.num_elements() / planes;
    VisitReal(data.dtype(), [&](auto type) {
      using T = decltype(type);
      const T* gamma = inputs[old ? 0 : 1]->data<T>();
      const T* beta = inputs[old ? 1 : 2]->data<T>();
      const T* mean = inputs[3]->data<T>();
      const T* variance = inputs[4]->data<T>();
      const T* all_in = data.data<T>();
      T* const all_out = outputs[0].mutable_data<T>();
      ParallelFor(context.num_threads, planes, data.num_elements() * 4, [&](int64_t plane) {
        const int64_t c = plane % data.dim(1);
        const T scale = gamma[c] / std::sqrt(variance[c] + static_cast<T>(epsilon));
        const T* in = all_in + plane * size;
        T* out = all_out + plane * size;
        const T middle = mean[c];
        const T added = beta[c];
        VectorizedFor<T>([=]() BW_ALWAYS_INLINE {
          for (int64_t i = 0; i < size; ++i) {
            out[i] = (in[i] - middle) * scale + added;
          }
        });
      });
    });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const size_t data = IsVersion1(inputs) ? 2 : 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i == data ? !IsRows(rows[i]) || rows[i].axis == 1 : !IsFixed(rows[i])) {
        return kMixedRows;
      }
    }
    return rows[data];
  }
};

// Options of MVN and NormalizeL2, which reduce over axes of the data.
struct AxesOptions {
  double epsilon = 0;
  bool normalize_variance = true;
  bool outside_root = false;     // MVN: epsilon is added to the root
  bool largest = false;          // NormalizeL2: epsilon is the least value of the sum
  bool axes_attribute = false;   // MVN-1
  bool across_channels = false;  // MVN-1
};

// The reduced axes, ascending from 0; empty if they or the rank are not known yet.
absl::StatusOr<std::optional<Ints>> AxesOf(const AxesOptions& options,
                                           absl::Span<const InputInfo> inputs) {
  const PartialShape& data = inputs[0].shape;
  Ints axes;
  bool known = true;
  if (options.axes_attribute) {
    for (int axis = options.across_channels ? 1 : 2; axis < data.rank(); ++axis) {
      axes.push_back(axis);
    }
  } else {
    BW_ASSIGN_OR_RETURN(known, ReadInts(inputs[1], "axes", axes));
  }
  if (!known || !data.has_rank()) {
    return std::optional<Ints>();
  }
  BW_ASSIGN_OR_RETURN(axes, NormalizeAxes(axes, data.rank()));
  return std::optional<Ints>(std::move(axes));
}

absl::Status AxesShapes(const AxesOptions& options, absl::Span<const InputInfo> inputs,
                        absl::Span<ValueInfo> outputs) {
  const size_t count = options.axes_attribute ? 1 : 2;
  BW_RETURN_IF_ERROR(ExpectCounts(inputs, count, count, outputs));
  BW_RETURN_IF_ERROR(ExpectFloats(inputs[0], "data"));
  BW_RETURN_IF_ERROR(AxesOf(options, inputs).status());
  outputs[0].dtype = inputs[0].dtype;
  outputs[0].shape = inputs[0].shape;
  return absl::OkStatus();
}

// Rows stay apart if the axis that counts them is not reduced: then each group holds elements of
// one row.
RowInfo AxesRows(const AxesOptions& options, absl::Span<const RowInfo> rows,
                 absl::Span<const InputInfo> inputs) {
  const absl::StatusOr<std::optional<Ints>> axes = AxesOf(options, inputs);
  const auto first = OnlyFirstHasRows(rows);
  if (!first.has_value() || !axes.ok() || !axes->has_value() ||
      std::find((*axes)->begin(), (*axes)->end(), first->axis) != (*axes)->end()) {
    return RowsWithoutRows(rows).value_or(kMixedRows);
  }
  return *first;
}

absl::StatusOr<std::string> ParseMode(const Node& node, const char* fallback, const char* other) {
  BW_ASSIGN_OR_RETURN(std::string mode, node.attributes.String("eps_mode", fallback));
  mode = absl::AsciiStrToLower(mode);
  if (mode != fallback && mode != other) {
    return Invalid("attribute eps_mode: '", mode, "' is not supported, only ", fallback, " and ",
                   other);
  }
  return mode;
}

struct MvnOp {
  using Options = AxesOptions;
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    options.axes_attribute = node.inputs.size() == 1;
    const char* const foreign = options.axes_attribute ? "eps_mode" : "across_channels";
    if (node.attributes.Has(foreign)) {
      return Invalid("attribute ", foreign, ": belongs to the other form of MVN, with ",
                     options.axes_attribute ? 2 : 1, " inputs");
    }
    BW_ASSIGN_OR_RETURN(options.epsilon, ParseEpsilon(node, "eps", 0));
    BW_ASSIGN_OR_RETURN(options.normalize_variance,
                        node.attributes.Bool("normalize_variance", true));
    BW_ASSIGN_OR_RETURN(options.across_channels, node.attributes.Bool("across_channels", false));
    BW_ASSIGN_OR_RETURN(const std::string mode, ParseMode(node, "inside_sqrt", "outside_sqrt"));
    options.outside_root = options.axes_attribute || mode == "outside_sqrt";
    return options;
  }
  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    return AxesShapes(options, inputs, outputs);
  }

  template <typename T>
  static void Run(const Options& options, int num_threads, const Groups& groups, const T* in,
                  T* out) {
    const T epsilon = static_cast<T>(options.epsilon);
    groups.ForEach(num_threads, [&](auto at, int64_t count) {
      const T divisor = static_cast<T>(count);
      // 1. Differences from the mean.
      const T mean = Sum<T>(count, [&](int64_t i) { return in[at(i)]; }) / divisor;
      for (int64_t i = 0; i < count; ++i) {
        out[at(i)] = in[at(i)] - mean;
      }
      if (!options.normalize_variance) {
        return;
      }
      // 2. The variance of the differences.
      const T variance =
          Sum<T>(count, [&](int64_t i) { return out[at(i)] * out[at(i)]; }) / divisor;
      const T deviation =
          options.outside_root ? std::sqrt(variance) + epsilon : std::sqrt(variance + epsilon);
      for (int64_t i = 0; i < count; ++i) {
        out[at(i)] = out[at(i)] / deviation;
      }
    });
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    BW_ASSIGN_OR_RETURN(const std::optional<Ints> axes, AxesOf(options, DescribeInputs(inputs)));
    const Groups groups(inputs[0]->shape(), *axes);
    VisitReal(outputs[0].dtype(), [&](auto type) {
      using T = decltype(type);
      Run(options, context.num_threads, groups, inputs[0]->data<T>(), outputs[0].mutable_data<T>());
    });
    return absl::OkStatus();
  }
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return AxesRows(Parse(node).value_or(Options()), rows, inputs);
  }
};

struct NormalizeL2Op {
  using Options = AxesOptions;
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.epsilon, ParseEpsilon(node, "eps", 0));
    BW_ASSIGN_OR_RETURN(const std::string mode, ParseMode(node, "add", "max"));
    options.largest = mode == "max";
    return options;
  }
  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    return AxesShapes(options, inputs, outputs);
  }
  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    BW_ASSIGN_OR_RETURN(const std::optional<Ints> axes, AxesOf(options, DescribeInputs(inputs)));
    const Groups groups(inputs[0]->shape(), *axes);
    VisitReal(outputs[0].dtype(), [&](auto type) {
      using T = decltype(type);
      const T* in = inputs[0]->data<T>();
      T* const out = outputs[0].mutable_data<T>();
      const T epsilon = static_cast<T>(options.epsilon);
      groups.ForEach(context.num_threads, [&](auto at, int64_t count) {
        const T squares = Sum<T>(count, [&](int64_t i) { return in[at(i)] * in[at(i)]; });
        const T norm = std::sqrt(options.largest ? std::max(squares, epsilon) : squares + epsilon);
        for (int64_t i = 0; i < count; ++i) {
          out[at(i)] = in[at(i)] / norm;
        }
      });
    });
    return absl::OkStatus();
  }
  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return AxesRows(Options(), rows, inputs);
  }
};

struct GroupNormOp {
  struct Options {
    int64_t groups = 1;
    double epsilon = 0;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.groups, node.attributes.Int("num_groups", 0));
    if (options.groups < 1) {
      return Invalid("attribute num_groups: ", options.groups, " must be positive");
    }
    BW_ASSIGN_OR_RETURN(options.epsilon, ParseEpsilon(node, "epsilon", 0));
    return options;
  }
  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 3, 3, outputs));
    BW_RETURN_IF_ERROR(ExpectFloats(inputs[0], "data"));
    BW_ASSIGN_OR_RETURN(int64_t channels, ChannelsOf(inputs[0]));
    BW_RETURN_IF_ERROR(CheckPerChannel(inputs[0], inputs[1], "scale", channels));
    BW_RETURN_IF_ERROR(CheckPerChannel(inputs[0], inputs[2], "bias", channels));
    if (channels >= 0 && channels % options.groups != 0) {
      return Invalid("attribute num_groups: ", options.groups, " does not divide ", channels,
                     " channels");
    }
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }
  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    if (data.num_elements() == 0) {
      return absl::OkStatus();
    }
    const int64_t channels = data.dim(1);
    const int64_t plane = data.num_elements() / (data.dim(0) * channels);
    const int64_t size = channels / options.groups * plane;  // of a group
    const int64_t groups = data.dim(0) * options.groups;
    AxesOptions mvn;
    mvn.epsilon = options.epsilon;
    VisitReal(data.dtype(), [&](auto type) {
      using T = decltype(type);
      T* const out = outputs[0].mutable_data<T>();
      MvnOp::Run(mvn, context.num_threads, Groups({groups, size}, {1}), data.data<T>(), out);
      const T* scale = inputs[1]->data<T>();
      const T* bias = inputs[2]->data<T>();
      for (int64_t p = 0; p < data.dim(0) * channels; ++p) {
        for (int64_t i = 0; i < plane; ++i) {
          T& value = out[p * plane + i];
          value = value * scale[p % channels] + bias[p % channels];
        }
      }
    });
    return absl::OkStatus();
  }
  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows, absl::Span<const InputInfo>) {
    const auto first = OnlyFirstHasRows(rows);
    return first.has_value() && first->axis == 0 ? *first
                                                 : RowsWithoutRows(rows).value_or(kMixedRows);
  }
};

}  // namespace

constinit const OperatorCode kBatchNormInference = WidenedCodeOf<BatchNormOp>(&BatchNormOp::Rows);
constinit const OperatorCode kMvn = WidenedCodeOf<MvnOp>(&MvnOp::Rows);
constinit const OperatorCode kNormalizeL2 = WidenedCodeOf<NormalizeL2Op>(&NormalizeL2Op::Rows);
constinit const OperatorCode kGroupNormalization = WidenedCodeOf<GroupNormOp>(&GroupNormOp::Rows);

}  // namespace beamwright::ops
