// Softmax and LogSoftmax over one axis (SoftmaxSlice): the largest element is found, and
// subtracted, so that no exponential overflows; the sum is taken in 16 lanes (LaneSum), in an order
// that does not depend on the CPU.
#include <algorithm>
#include <limits>

#include "ops/kernels/inputs.h"
#include "ops/kernels/math.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
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
