// Windows of convolutions and poolings: strides, dilations and padding (ParseWindows), and per axis
// which inputs an output reads (MakeWindowAxis, WindowAxis):
//
//   output o reads inputs o stride - pad_begin + k dilation, for k below kernel, that are inside
//
// InsideOf gives the range of k for an output whose inputs are inside; OutputsOf gives the outputs
// whose input for a k is inside. Kernels use them to leave out the padding rather than to compare
// each element. Extents are below 2^31, so that no sum or product of these overflows.
#include "ops/kernels/windows.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "ops/base/status.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {
namespace {

// Extents and attributes below this keep every sum and product of a window within 64 bits.
constexpr int64_t kMostExtent = int64_t{1} << 31;

int64_t EntryOr(const Ints& list, size_t index, int64_t fallback) {
  return list.empty() ? fallback : list[index];
}

absl::StatusOr<std::string> LowerCase(const Node& node, const std::string& name,
                                      std::string fallback) {
  BW_ASSIGN_OR_RETURN(const std::string value, node.attributes.String(name, std::move(fallback)));
  return absl::AsciiStrToLower(value);
}

}  // namespace

absl::StatusOr<Ints> ParseExtents(const Node& node, const std::string& name, int64_t least) {
  BW_ASSIGN_OR_RETURN(const std::vector<int64_t> values, node.attributes.Ints(name, {}));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < least || values[i] >= kMostExtent) {
      return Invalid("attribute ", name, "[", i, "]: ", values[i], " is outside [", least,
                     ", 2^31)");
    }
  }
  return Ints(values.begin(), values.end());
}

absl::StatusOr<WindowOptions> ParseWindows(const Node& node) {
  WindowOptions options;
  BW_ASSIGN_OR_RETURN(options.strides, ParseExtents(node, "strides", 1));
  BW_ASSIGN_OR_RETURN(options.dilations, ParseExtents(node, "dilations", 1));
  BW_ASSIGN_OR_RETURN(options.pads_begin, ParseExtents(node, "pads_begin", 0));
  BW_ASSIGN_OR_RETURN(options.pads_end, ParseExtents(node, "pads_end", 0));
  BW_ASSIGN_OR_RETURN(const std::string pad, LowerCase(node, "auto_pad", "explicit"));
  using AutoPad = WindowOptions::AutoPad;
  if (pad == "same_upper") {
    options.auto_pad = AutoPad::kSameUpper;
  } else if (pad == "same_lower") {
    options.auto_pad = AutoPad::kSameLower;
  } else if (pad == "valid") {
    options.auto_pad = AutoPad::kValid;
  } else if (pad != "explicit" && pad != "notset") {
    return Invalid("attribute auto_pad: '", pad,
                   "' is not supported, only explicit, same_upper, same_lower and valid");
  }
  BW_ASSIGN_OR_RETURN(const std::string rounding, LowerCase(node, "rounding_type", "floor"));
  if (rounding == "ceil") {
    options.rounding = WindowOptions::Rounding::kCeil;
  } else if (rounding == "ceil_torch") {
    options.rounding = WindowOptions::Rounding::kCeilTorch;
  } else if (rounding != "floor") {
    return Invalid("attribute rounding_type: '", rounding,
                   "' is not supported, only floor, ceil and ceil_torch");
  }
  return options;
}

absl::Status CheckWindowRank(const WindowOptions& options, int spatial_rank) {
  if (spatial_rank < 1 || spatial_rank > 3) {
    return Invalid("has ", spatial_rank, " spatial axes; 1, 2 and 3 are supported");
  }
  const auto check = [&](absl::string_view name, const Ints& list) -> absl::Status {
    return list.empty() || list.size() == static_cast<size_t>(spatial_rank)
               ? absl::OkStatus()
               : Invalid("attribute ", name, ": has ", list.size(), " entries for ", spatial_rank,
                         " spatial axes");
  };
  BW_RETURN_IF_ERROR(check("strides", options.strides));
  BW_RETURN_IF_ERROR(check("dilations", options.dilations));
  BW_RETURN_IF_ERROR(check("pads_begin", options.pads_begin));
  return check("pads_end", options.pads_end);
}

std::pair<int64_t, int64_t> WindowAxis::InsideOf(int64_t o) const {
  const int64_t start = o * stride - pad_begin;
  const int64_t first = start < 0 ? CeilDiv(-start, dilation) : 0;
  const int64_t end = start < in ? CeilDiv(in - start, dilation) : 0;
  return {std::min(first, kernel), std::max(std::min(end, kernel), std::min(first, kernel))};
}

std::pair<int64_t, int64_t> WindowAxis::OutputsOf(int64_t k) const {
  const int64_t shift = k * dilation - pad_begin;
  const int64_t first = std::min(shift < 0 ? CeilDiv(-shift, stride) : 0, out);
  const int64_t end = shift < in ? (in - 1 - shift) / stride + 1 : 0;
  return {first, std::clamp(end, first, out)};
}

absl::StatusOr<WindowAxis> MakeWindowAxis(const WindowOptions& options, size_t spatial, int64_t in,
                                          int64_t kernel) {
  using AutoPad = WindowOptions::AutoPad;
  using Rounding = WindowOptions::Rounding;
  WindowAxis axis;
  axis.in = in;
  axis.kernel = kernel;
  axis.stride = EntryOr(options.strides, spatial, 1);
  axis.dilation = EntryOr(options.dilations, spatial, 1);
  axis.out = PartialShape::kDynamic;
  if (in >= kMostExtent || kernel >= kMostExtent) {
    return Invalid("spatial axis ", spatial, ": extents must be below 2^31");
  }
  if (kernel == 0) {
    return Invalid("spatial axis ", spatial, ": the window is empty");
  }
  const bool same =
      options.auto_pad == AutoPad::kSameUpper || options.auto_pad == AutoPad::kSameLower;
  if (same && in >= 0) {
    axis.out = CeilDiv(in, axis.stride);
  }
  if (in < 0 || kernel < 0) {
    return axis;
  }
  const int64_t window = (kernel - 1) * axis.dilation + 1;
  if (same) {
    const int64_t missing = std::max<int64_t>(0, (axis.out - 1) * axis.stride + window - in);
    axis.pad_begin = options.auto_pad == AutoPad::kSameUpper ? missing / 2 : missing - missing / 2;
    axis.pad_end = missing - axis.pad_begin;
    return axis;
  }
  if (options.auto_pad == AutoPad::kExplicit) {
    axis.pad_begin = EntryOr(options.pads_begin, spatial, 0);
    axis.pad_end = EntryOr(options.pads_end, spatial, 0);
  }
  const int64_t padded = in + axis.pad_begin + axis.pad_end;
  if (window > padded) {
    return Invalid("spatial axis ", spatial, ": a window of ", window, " does not fit into ", in,
                   " padded to ", padded);
  }
  const int64_t steps = options.rounding == Rounding::kFloor
                            ? (padded - window) / axis.stride
                            : CeilDiv(padded - window, axis.stride);
  axis.out = steps + 1;
  if (options.rounding == Rounding::kCeilTorch &&
      (axis.out - 1) * axis.stride >= in + axis.pad_begin) {
    --axis.out;
  }
  return axis;
}

absl::StatusOr<WindowAxes> MakeWindowAxes(const WindowOptions& options,
                                          absl::Span<const int64_t> in,
                                          absl::Span<const int64_t> kernel) {
  WindowAxes axes;
  for (size_t i = 0; i < in.size(); ++i) {
    BW_ASSIGN_OR_RETURN(axes[3 - in.size() + i], MakeWindowAxis(options, i, in[i], kernel[i]));
  }
  return axes;
}

}  // namespace beamwright::ops
