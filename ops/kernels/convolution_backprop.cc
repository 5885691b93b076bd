// The transposed convolutions: each input element adds its multiple of the filter to the output.
//
// 1. TransposedAxis describes an axis as the convolution that it transposes, whose input is our
//    output. The extent either follows from pads, or output_shape asks for it and the pads follow.
// 2. Shapes puts these extents together; Compute does it again with the run's extents.
// 3. Spread runs one output plane (an item's channel) on each thread. SpreadPlane adds, for each
//    input channel and each element of the filter, whole rows of the input to rows of the output,
//    shifted and `stride` apart. An element's sum has the same order whatever the number of
//    threads.
//
// Example in one dimension: input [a, b], filter [p, q, r], stride 2. The output has (2 - 1) * 2 +
// 3 = 5 elements:
//
//   a * [p, q, r, 0, 0] + b * [0, 0, p, q, r] = [ap, aq, ar + bp, bq, br]
#include <algorithm>

#include "ops/kernels/convolution.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kMostExtent = int64_t{1} << 31;

struct BackpropOptions {
  WindowOptions windows;
  Ints output_padding;
  bool grouped = false;
  bool Same() const {
    return windows.auto_pad == WindowOptions::AutoPad::kSameUpper ||
           windows.auto_pad == WindowOptions::AutoPad::kSameLower;
  }
};

// The placeholder of an output extent that the graph does not give.
constexpr int64_t kFollows = 0;

// The axis of the convolution that this one transposes: its `in` is our output's extent, its `out`
// our input's. wanted: of output_shape, -1 if it is not known yet, or kFollows.
absl::StatusOr<WindowAxis> TransposedAxis(const BackpropOptions& options, size_t spatial,
                                          int64_t in, int64_t kernel, int64_t wanted) {
  const auto entry = [&](const Ints& list, int64_t fallback) {
    return list.empty() ? fallback : list[spatial];
  };
  const bool padded =
      wanted == kFollows && options.windows.auto_pad == WindowOptions::AutoPad::kExplicit;
  WindowAxis axis;
  axis.in = wanted == kFollows ? PartialShape::kDynamic : wanted;
  axis.out = in;
  axis.kernel = kernel;
  axis.stride = entry(options.windows.strides, 1);
  axis.dilation = entry(options.windows.dilations, 1);
  axis.pad_begin = padded ? entry(options.windows.pads_begin, 0) : 0;
  axis.pad_end = padded ? entry(options.windows.pads_end, 0) : 0;
  if (in >= kMostExtent || kernel >= kMostExtent) {
    return Invalid("spatial axis ", spatial, ": extents must be below 2^31");
  }
  if (in < 0 || kernel < 0 || wanted < 0) {
    return axis;
  }
  if (in == 0 || kernel == 0) {
    return Invalid("spatial axis ", spatial, ": data and filter must not be empty");
  }
  const int64_t full =
      (in - 1) * axis.stride + (kernel - 1) * axis.dilation + 1 + entry(options.output_padding, 0);
  if (wanted != kFollows) {
    // What is too much is cut away at both ends, what is missing stays zero behind.
    const int64_t pads = std::max<int64_t>(full - wanted, 0);
    const bool more_in_front = options.windows.auto_pad == WindowOptions::AutoPad::kSameUpper;
    axis.pad_begin = more_in_front ? pads - pads / 2 : pads / 2;
    axis.pad_end = pads - axis.pad_begin;
    return axis;
  }
  axis.in = full - axis.pad_begin - axis.pad_end;
  if (axis.in < 1) {
    return Invalid("spatial axis ", spatial, ": pads of ", axis.pad_begin, " and ", axis.pad_end,
                   " leave nothing of the output");
  }
  return axis;
}

// One output channel of one item; `geometry` is that of the transposed convolution, so its
// out_channels are the channels that are summed over.
template <typename T>
void SpreadPlane(const ConvolutionGeometry& geometry, const T* in, const T* filter,
                 int64_t filter_step, T* out) {
  const auto& [depth, height, width] = geometry.axes;
  const int64_t in_plane = geometry.OutPlane();
  std::fill(out, out + geometry.InPlane(), T{});
  for (int64_t channel = 0; channel < geometry.out_channels; ++channel) {
    for (int64_t kernel = 0; kernel < geometry.Kernel(); ++kernel) {
      const T weight = filter[channel * filter_step + kernel];
      const int64_t kd = kernel / (height.kernel * width.kernel);
      const int64_t kh = kernel / width.kernel % height.kernel;
      const int64_t kw = kernel % width.kernel;
      for (int64_t z = 0; z < depth.out; ++z) {
        const int64_t out_z = z * depth.stride + kd * depth.dilation - depth.pad_begin;
        for (int64_t y = 0; y < height.out && out_z >= 0 && out_z < depth.in; ++y) {
          const int64_t out_y = y * height.stride + kh * height.dilation - height.pad_begin;
          if (out_y < 0 || out_y >= height.in) {
            continue;
          }
          const T* from = in + channel * in_plane + (z * height.out + y) * width.out;
          T* to = out + (out_z * height.in + out_y) * width.in;
          const int64_t shift = kw * width.dilation - width.pad_begin;
          for (int64_t x = 0; x < width.out; ++x) {
            const int64_t at = x * width.stride + shift;
            if (at >= 0 && at < width.in) {
              to[at] += weight * from[x];
            }
          }
        }
      }
    }
  }
}

struct BackpropOp {
  using Options = BackpropOptions;
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    options.grouped = node.op == "GroupConvolutionBackpropData";
    BW_ASSIGN_OR_RETURN(options.windows, ParseWindows(node));
    BW_ASSIGN_OR_RETURN(options.output_padding, ParseExtents(node, "output_padding", 0));
    return options;
  }

  // The extents that output_shape asks for, one for each spatial axis.
  static absl::StatusOr<Ints> WantedExtents(const Options& options,
                                            absl::Span<const InputInfo> inputs, int spatial_rank) {
    Ints wanted(static_cast<size_t>(spatial_rank), kFollows);
    if (!Present(inputs, 2)) {
      return options.Same() ? Invalid(
                                  "attribute auto_pad: same_upper and same_lower need the input "
                                  "output_shape")
                            : absl::StatusOr<Ints>(wanted);
    }
    const int64_t length = ListLength(inputs[2]);
    if (length >= 0 && length != spatial_rank) {
      return Invalid("output_shape: has ", length, " elements for ", spatial_rank, " spatial axes");
    }
    BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[2], "output_shape", wanted));
    if (!known) {
      return Ints(static_cast<size_t>(spatial_rank), PartialShape::kDynamic);
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] < 1 || wanted[i] >= kMostExtent) {
        return Invalid("output_shape[", i, "]: ", wanted[i], " is outside [1, 2^31)");
      }
    }
    return wanted;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 3, outputs));
    BW_ASSIGN_OR_RETURN(const ConvolutionChannels channels,
                        CheckConvolutionInputs(inputs, options.grouped, /*transposed=*/true));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    if (channels.spatial_rank < 0) {
      return absl::OkStatus();
    }
    BW_RETURN_IF_ERROR(CheckWindowRank(options.windows, channels.spatial_rank));
    if (!options.output_padding.empty() &&
        options.output_padding.size() != static_cast<size_t>(channels.spatial_rank)) {
      return Invalid("attribute output_padding: has ", options.output_padding.size(),
                     " entries for ", channels.spatial_rank, " spatial axes");
    }
    BW_ASSIGN_OR_RETURN(const Ints wanted, WantedExtents(options, inputs, channels.spatial_rank));
    const PartialShape& data = inputs[0].shape;
    const PartialShape& filter = inputs[1].shape;
    Shape dims = {data.has_rank() ? data.dim(0) : PartialShape::kDynamic, channels.all_out()};
    for (int i = 0; i < channels.spatial_rank; ++i) {
      const int prefix = options.grouped ? 3 : 2;
      BW_ASSIGN_OR_RETURN(
          const WindowAxis axis,
          TransposedAxis(options, static_cast<size_t>(i),
                         data.has_rank() ? data.dim(2 + i) : PartialShape::kDynamic,
                         filter.has_rank() ? filter.dim(prefix + i) : PartialShape::kDynamic,
                         wanted[static_cast<size_t>(i)]));
      dims.push_back(axis.in);
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    const Tensor& filter = *inputs[1];
    if (outputs[0].num_elements() == 0) {
      return absl::OkStatus();
    }
    const int prefix = options.grouped ? 3 : 2;
    const int spatial = filter.rank() - prefix;
    ConvolutionGeometry geometry;
    geometry.groups = options.grouped ? filter.dim(0) : 1;
    geometry.out_channels = filter.dim(prefix - 2);
    geometry.in_channels = filter.dim(prefix - 1);
    for (int i = 0; i < spatial; ++i) {
      BW_ASSIGN_OR_RETURN(
          geometry.axes[static_cast<size_t>(3 - spatial + i)],
          TransposedAxis(
              options, static_cast<size_t>(i), data.dim(2 + i), filter.dim(prefix + i),
              inputs.size() > 2 && inputs[2]->has_value() ? IntAt(*inputs[2], i) : kFollows));
    }
    if (data.dtype() == DType::kF64) {
      Spread<double>(geometry, context.num_threads, data, filter, outputs[0]);
    } else {
      Spread<float>(geometry, context.num_threads, data, filter, outputs[0]);
    }
    return absl::OkStatus();
  }

  template <typename T>
  static void Spread(const ConvolutionGeometry& geometry, int num_threads, const Tensor& data,
                     const Tensor& filter, Tensor& output) {
    const int64_t channels = geometry.groups * geometry.in_channels;
    const int64_t group_in = geometry.out_channels * geometry.OutPlane();
    const int64_t filter_step = geometry.in_channels * geometry.Kernel();
    T* const out = output.mutable_data<T>();
    const int64_t work = output.num_elements() * std::min(filter_step, kMinParallelWork) / 4;
    ParallelFor(num_threads, data.dim(0) * channels, work, [&](int64_t plane) {
      const int64_t item = plane / channels;
      const int64_t channel = plane % channels;
      const int64_t group = channel / geometry.in_channels;
      SpreadPlane(geometry, data.data<T>() + (item * geometry.groups + group) * group_in,
                  filter.data<T>() + group * geometry.out_channels * filter_step +
                      channel % geometry.in_channels * geometry.Kernel(),
                  filter_step, out + plane * geometry.InPlane());
    });
  }
};

}  // namespace

constinit const OperatorCode kConvolutionBackpropData = WidenedCodeOf<BackpropOp>(&ConvolutionRows);
constinit const OperatorCode kGroupConvolutionBackpropData =
    WidenedCodeOf<BackpropOp>(&ConvolutionRows);

}  // namespace beamwright::ops
