// FakeQuantize: rounds each element to one of `levels` values between input_low and input_high, and
// maps that range to [output_low, output_high] (Quantize). What is outside becomes the nearer end
// of it. It simulates quantization in floats, as graphs that were trained for it contain it.
//
// The limits may be one for all elements, or broadcast to the data's shape: Run computes which
// limit each element has (Offsets). Types of 16 bits are widened to f32 (WidenedCodeOf).
#include <algorithm>
#include <cmath>

#include "ops/kernels/inputs.h"
#include "ops/kernels/offsets.h"
#include "ops/kernels/quantization.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/widen.h"

namespace beamwright::ops {
namespace {

constexpr absl::string_view kNames[] = {"data", "input_low", "input_high", "output_low",
                                        "output_high"};

struct FakeQuantizeOp {
  struct Options {
    int64_t levels = 2;
    bool broadcasts = true;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.levels, node.attributes.Int("levels", 0));
    if (options.levels < 2 || options.levels > (int64_t{1} << 24)) {
      return Invalid("attribute levels: ", options.levels, " is outside [2, 2^24]");
    }
    BW_ASSIGN_OR_RETURN(const std::string broadcast,
                        node.attributes.String("auto_broadcast", "numpy"));
    if (broadcast != "numpy" && broadcast != "none") {
      return Invalid("attribute auto_broadcast: '", broadcast,
                     "' is not supported, only numpy and none");
    }
    options.broadcasts = broadcast == "numpy";
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 5, 5, outputs));
    const PartialShape& data = inputs[0].shape;
    for (size_t i = 0; i < 5; ++i) {
      BW_RETURN_IF_ERROR(
          ExpectType(inputs[i], kNames[i], {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}));
      if (inputs[i].dtype != inputs[0].dtype) {
        return Invalid(kNames[i], ": element type ", Name(inputs[i].dtype),
                       " is not that of data, ", Name(inputs[0].dtype));
      }
      const PartialShape& limit = inputs[i].shape;
      if (!data.has_rank() || !limit.has_rank()) {
        continue;
      }
      bool fits = options.broadcasts ? limit.rank() <= data.rank() : limit.rank() == data.rank();
      for (int axis = 1; fits && axis <= limit.rank(); ++axis) {
        const int64_t mine = limit.dim(limit.rank() - axis);
        const int64_t theirs = data.dim(data.rank() - axis);
        fits = mine == theirs || mine < 0 || theirs < 0 || (mine == 1 && options.broadcasts);
      }
      if (!fits) {
        return Invalid(kNames[i], ": shape ", limit.ToString(), " does not broadcast to ",
                       data.ToString(), ", that of data");
      }
    }
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = data;
    return absl::OkStatus();
  }

  template <typename T>
  static T Quantize(T x, T in_low, T in_high, T out_low, T out_high, T steps) {
    if (x <= std::min(in_low, in_high)) {
      return out_low;
    }
    if (x > std::max(in_low, in_high)) {
      return out_high;
    }
    return std::nearbyint((x - in_low) / (in_high - in_low) * steps) / steps *
               (out_high - out_low) +
           out_low;
  }

  template <typename T>
  static void Run(const Options& options, absl::Span<const Tensor* const> inputs, Tensor& output) {
    const Tensor& data = *inputs[0];
    std::vector<int64_t> at[5];  // of each limit, per element of data
    for (size_t i = 1; i < 5; ++i) {
      const Shape& shape = inputs[i]->shape();
      const Shape dense = DenseStrides(shape);
      Shape strides(data.shape().size(), 0);
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        strides[strides.size() - shape.size() + axis] = shape[axis] == 1 ? 0 : dense[axis];
      }
      if (inputs[i]->num_elements() != 1) {
        at[i] = Offsets(data.shape(), strides);
      }
    }
    const auto limit = [&](size_t i, int64_t element) {
      return inputs[i]->data<T>()[at[i].empty() ? 0 : at[i][static_cast<size_t>(element)]];
    };
    const T* in = data.data<T>();
    T* out = output.mutable_data<T>();
    for (int64_t i = 0; i < data.num_elements(); ++i) {
      out[i] = Quantize(in[i], limit(1, i), limit(2, i), limit(3, i), limit(4, i),
                        static_cast<T>(options.levels - 1));
    }
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    if (inputs[0]->dtype() == DType::kF64) {
      Run<double>(options, inputs, outputs[0]);
    } else {
      Run<float>(options, inputs, outputs[0]);
    }
    return absl::OkStatus();
  }

  // Limits may not be larger than data, so they can't have rows where data has none.
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return IsRows(rows[0]) ? ElementwiseRows(node, rows, inputs)
                           : RowsWithoutRows(rows).value_or(kMixedRows);
  }
};

}  // namespace

constinit const OperatorCode kFakeQuantize = WidenedCodeOf<FakeQuantizeOp>(&FakeQuantizeOp::Rows);

}  // namespace beamwright::ops
