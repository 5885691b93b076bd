// Convolutions: checks and shapes here, the arithmetic by type.
//
//   f32              FloatConvolution (float_convolution.h); a constant filter is packed, and the
//                    operators behind it (ConvolutionEnd) run on each part of the result
//   i32              IntegerConvolution in f32 where that is exact, else ConvolveAll
//   f64              ConvolveAll
//   f16, bf16        widened to f32 (types.h)
//
// 1. CheckConvolutionInputs: types, ranks, groups and channels; the transposed convolutions share
//    it.
// 2. ConvolutionOp::Shapes: each spatial axis by the rules of windows (windows.h).
// 3. ConvolutionKernel::Run: GeometryOf gathers all extents, the type chooses the function.
// 4. ConvolveAll is the reference: for each output channel, input channel and kernel position, one
//    weight times a shifted plane. Terms are added in the order input channel, kernel position.
//
// Items of the batch never meet: axis 0 may count rows, and only if the filter does not
// (ConvolutionRows).
#include "ops/kernels/convolution.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "ops/kernels/float_convolution.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

absl::StatusOr<ConvolutionChannels> CheckConvolutionInputs(absl::Span<const InputInfo> inputs,
                                                           bool grouped, bool transposed) {
  const InputInfo& data = inputs[0];
  const InputInfo& filter = inputs[1];
  BW_RETURN_IF_ERROR(
      transposed ? ExpectType(data, "data", {DType::kF32, DType::kF16, DType::kBF16, DType::kF64})
                 : ExpectType(data, "data",
                              {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI32}));
  if (filter.dtype != data.dtype) {
    return Invalid("filters: element type ", Name(filter.dtype), " is not that of data, ",
                   Name(data.dtype));
  }
  ConvolutionChannels channels;
  const int prefix = grouped ? 3 : 2;
  if (data.shape.has_rank()) {
    channels.spatial_rank = data.shape.rank() - 2;
    if (channels.spatial_rank < 1) {
      return Invalid("data: shape ", data.shape.ToString(), " must have rank 3 or more");
    }
  }
  if (filter.shape.has_rank()) {
    const int spatial = filter.shape.rank() - prefix;
    if (spatial < 1 || (channels.spatial_rank >= 0 && channels.spatial_rank != spatial)) {
      return Invalid("filters: shape ", filter.shape.ToString(), " does not fit data of shape ",
                     data.shape.ToString(), ": expected ", prefix, " axes before the spatial ones");
    }
    channels.spatial_rank = spatial;
    channels.groups = grouped ? filter.shape.dim(0) : 1;
    channels.out = filter.shape.dim(prefix - (transposed ? 1 : 2));
    channels.in = filter.shape.dim(prefix - (transposed ? 2 : 1));
  } else if (grouped) {
    channels.groups = PartialShape::kDynamic;
  }
  if (channels.groups == 0 || channels.in == 0) {
    return Invalid("filters: shape ", filter.shape.ToString(), " has no groups or no channels");
  }
  if (data.shape.has_rank() && data.shape.dim(1) >= 0 && channels.groups > 0 && channels.in > 0 &&
      (data.shape.dim(1) % channels.groups != 0 ||
       data.shape.dim(1) / channels.groups != channels.in)) {
    return Invalid("data: shape ", data.shape.ToString(), " has ", data.shape.dim(1),
                   " channels, filters of shape ", filter.shape.ToString(), " take ",
                   channels.groups == 1 ? "" : absl::StrCat(channels.groups, " times "),
                   channels.in);
  }
  return channels;
}

RowInfo ConvolutionRows(const Node&, absl::Span<const RowInfo> rows, absl::Span<const InputInfo>) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  const auto first = OnlyFirstHasRows(rows);
  return first.has_value() && first->axis == 0 ? *first : kMixedRows;
}

namespace {

// Integers wrap.
template <typename T>
void AddProduct(T a, T b, T& sum) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    sum = static_cast<T>(static_cast<U>(sum) + static_cast<U>(a) * static_cast<U>(b));
  } else {
    sum += a * b;
  }
}

// One output channel of one item, in types other than f32. in: the channels of its group; filter:
// [in_channels, kernel..].
template <typename T>
void ConvolvePlane(const ConvolutionGeometry& geometry, const T* in, const T* filter, T* out) {
  const auto& [depth, height, width] = geometry.axes;
  std::fill(out, out + geometry.OutPlane(), T{});
  for (int64_t channel = 0; channel < geometry.in_channels; ++channel, in += geometry.InPlane()) {
    for (int64_t kernel = 0; kernel < geometry.Kernel(); ++kernel) {
      const T weight = *filter++;
      const int64_t kd = kernel / (height.kernel * width.kernel);
      const int64_t kh = kernel / width.kernel % height.kernel;
      const int64_t kw = kernel % width.kernel;
      const auto [first, end] = width.OutputsOf(kw);
      const int64_t shift = kw * width.dilation - width.pad_begin;
      const auto planes = depth.OutputsOf(kd);
      const auto lines = height.OutputsOf(kh);
      for (int64_t z = planes.first; z < planes.second; ++z) {
        const int64_t in_z = z * depth.stride + kd * depth.dilation - depth.pad_begin;
        for (int64_t y = lines.first; y < lines.second; ++y) {
          const int64_t in_y = y * height.stride + kh * height.dilation - height.pad_begin;
          const T* from = in + (in_z * height.in + in_y) * width.in + shift;
          T* to = out + (z * height.out + y) * width.out;
          for (int64_t x = first; x < end; ++x) {
            AddProduct(weight, from[x * width.stride], to[x]);
          }
        }
      }
    }
  }
}

template <typename T>
void ConvolveAll(const ConvolutionGeometry& geometry, int num_threads, int64_t work,
                 const Tensor& data, const Tensor& filter, Tensor& output) {
  const int64_t channels = geometry.groups * geometry.out_channels;
  const int64_t group_in = geometry.in_channels * geometry.InPlane();
  const T* in = data.data<T>();
  const T* weights = filter.data<T>();
  T* const out = output.mutable_data<T>();
  ParallelFor(num_threads, data.dim(0) * channels, work, [&](int64_t plane) {
    const int64_t item = plane / channels;
    const int64_t channel = plane % channels;
    const int64_t group = channel / geometry.out_channels;
    ConvolvePlane(geometry, in + (item * geometry.groups + group) * group_in,
                  weights + channel * geometry.in_channels * geometry.Kernel(),
                  out + plane * geometry.OutPlane());
  });
}

struct ConvolutionOptions {
  WindowOptions windows;
  bool grouped = false;
  bool has_end = false;  // inputs behind the filter are those of a ConvolutionEnd
};

struct ConvolutionOp {
  using Options = ConvolutionOptions;
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    options.has_end = node.op == kConvolutionChainName;
    options.grouped = node.op == "GroupConvolution";
    if (options.has_end) {
      BW_ASSIGN_OR_RETURN(options.grouped, node.attributes.Bool("grouped", false));
    }
    BW_ASSIGN_OR_RETURN(options.windows, ParseWindows(node));
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    const size_t most = options.has_end ? kMostChainValues : 2;
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, most, outputs));
    BW_ASSIGN_OR_RETURN(const ConvolutionChannels channels,
                        CheckConvolutionInputs(inputs, options.grouped, /*transposed=*/false));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    if (channels.spatial_rank < 0) {
      return absl::OkStatus();
    }
    BW_RETURN_IF_ERROR(CheckWindowRank(options.windows, channels.spatial_rank));
    const PartialShape& data = inputs[0].shape;
    const PartialShape& filter = inputs[1].shape;
    Shape dims = {data.has_rank() ? data.dim(0) : PartialShape::kDynamic, channels.all_out()};
    for (int i = 0; i < channels.spatial_rank; ++i) {
      const int prefix = options.grouped ? 3 : 2;
      BW_ASSIGN_OR_RETURN(
          const WindowAxis axis,
          MakeWindowAxis(options.windows, static_cast<size_t>(i),
                         data.has_rank() ? data.dim(2 + i) : PartialShape::kDynamic,
                         filter.has_rank() ? filter.dim(prefix + i) : PartialShape::kDynamic));
      dims.push_back(axis.out);
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }
};

// The extents of a convolution of tensors whose shapes were checked.
absl::StatusOr<ConvolutionGeometry> GeometryOf(const ConvolutionOptions& options,
                                               const Tensor& data, const Tensor& filter) {
  const int prefix = options.grouped ? 3 : 2;
  ConvolutionGeometry geometry;
  geometry.groups = options.grouped ? filter.dim(0) : 1;
  geometry.out_channels = filter.dim(prefix - 2);
  geometry.in_channels = filter.dim(prefix - 1);
  const absl::Span<const int64_t> in(data.shape());
  const absl::Span<const int64_t> kernel(filter.shape());
  BW_ASSIGN_OR_RETURN(geometry.axes, MakeWindowAxes(options.windows, in.subspan(2),
                                                    kernel.subspan(static_cast<size_t>(prefix))));
  return geometry;
}

class ConvolutionKernel final : public Kernel {
 public:
  // constant_filter: null if it is not known.
  ConvolutionKernel(ConvolutionOptions options, const Tensor* constant_filter,
                    std::optional<ConvolutionEnd> end)
      : options_(std::move(options)), floats_(constant_filter != nullptr), end_(std::move(end)) {
    if (constant_filter != nullptr && constant_filter->dtype() == DType::kI32) {
      integers_.emplace(*constant_filter, options_.grouped);
    }
  }

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    RuntimeResults results(outputs.size());
    BW_RETURN_IF_ERROR(
        ConvolutionOp::Shapes(options_, DescribeInputs(inputs.first(2)), absl::MakeSpan(results)));
    BW_RETURN_IF_ERROR(PrepareOutputs(results, outputs));
    const Tensor& data = *inputs[0];
    const Tensor& filter = *inputs[1];
    Tensor& output = outputs[0];
    if (output.num_elements() == 0) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const ConvolutionGeometry geometry, GeometryOf(options_, data, filter));
    const int64_t per_output = geometry.in_channels * geometry.Kernel();
    const int64_t work = output.num_elements() > kMinParallelWork
                             ? kMinParallelWork
                             : output.num_elements() * std::min(per_output, kMinParallelWork);
    if (data.dtype() == DType::kF64) {
      ConvolveAll<double>(geometry, context.num_threads, work, data, filter, output);
      return absl::OkStatus();
    }
    if (data.dtype() == DType::kI32) {
      if (integers_.has_value() && RunExactly(context, geometry, work, data, output)) {
        return absl::OkStatus();
      }
      ConvolveAll<int32_t>(geometry, context.num_threads, work, data, filter, output);
      return absl::OkStatus();
    }
    floats_.Run(context.num_threads, geometry, data.dim(0), filter.data<float>(),
                data.data<float>(), output.mutable_data<float>(),
                end_.has_value() ? &*end_ : nullptr);
    return absl::OkStatus();
  }

  bool NeedsInput(size_t index) const override { return index < 2; }

 private:
  // Runs in f32. False: values of some item are too large to be exact.
  bool RunExactly(const ExecutionContext& context, const ConvolutionGeometry& geometry,
                  int64_t work, const Tensor& data, Tensor& output) const {
    const int64_t items = data.dim(0);
    std::atomic<bool> failed = false;
    ParallelFor(context.num_threads, items, work, [&](int64_t item) {
      if (!failed && !integers_->Run(
                         context.num_threads, geometry,
                         data.data<int32_t>() + item * (data.num_elements() / items),
                         output.mutable_data<int32_t>() + item * (output.num_elements() / items))) {
        failed = true;
      }
    });
    return !failed;
  }

  const ConvolutionOptions options_;
  const FloatConvolution floats_;
  const std::optional<ConvolutionEnd> end_;
  std::optional<IntegerConvolution> integers_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeConvolution(const KernelRequest& request) {
  BW_ASSIGN_OR_RETURN(ConvolutionOptions options, ConvolutionOp::Parse(request.node));
  const Tensor* const constant_filter =
      request.inputs.size() >= 2 ? request.inputs[1].value : nullptr;
  std::optional<ConvolutionEnd> end;
  if (options.has_end) {
    if (constant_filter == nullptr || constant_filter->dtype() != DType::kF32) {
      return Invalid("filter of a ", kConvolutionChainName, " must be known and f32");
    }
    BW_ASSIGN_OR_RETURN(const ChainOptions chain,
                        ParseChain(request.node, request.inputs.size() - 1));
    std::vector<const Tensor*> constants;
    for (const InputInfo& input : request.inputs.subspan(2)) {
      constants.push_back(input.value);
    }
    const int64_t channels =
        constant_filter->dim(0) * (options.grouped ? constant_filter->dim(1) : 1);
    BW_ASSIGN_OR_RETURN(end, ConvolutionEnd::Make(chain, constants, channels));
  }
  return std::make_unique<ConvolutionKernel>(std::move(options), constant_filter, std::move(end));
}

}  // namespace

constinit const OperatorCode kConvolution = {&InferAs<ConvolutionOp>, &Widened<&MakeConvolution>,
                                             &ConvolutionRows};
constinit const OperatorCode kGroupConvolution = {&InferAs<ConvolutionOp>,
                                                  &Widened<&MakeConvolution>, &ConvolutionRows};
constinit const OperatorCode kConvolutionChain = {&InferAs<ConvolutionOp>, &MakeConvolution,
                                                  &ConvolutionRows};

}  // namespace beamwright::ops
