// Sliding windows: the attributes that convolutions and pooling share (strides, dilations,
// pads_begin, pads_end, auto_pad, rounding_type) and the extents that follow from them. Data is
// [N, C, spatial..] with one to three spatial axes; kernels see three, the missing ones in front
// having extent 1.
#ifndef BEAMWRIGHT_OPS_KERNELS_WINDOWS_H_
#define BEAMWRIGHT_OPS_KERNELS_WINDOWS_H_

#include <array>

#include "ops/graph/operator.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

struct WindowOptions {
  enum class AutoPad { kExplicit, kSameUpper, kSameLower, kValid };
  enum class Rounding {
    kFloor,
    kCeil,       // a last window that is not full counts
    kCeilTorch,  // the same, but it must begin inside the data or the padding before it
  };
  // One entry a spatial axis; empty: 1 everywhere (strides, dilations) or 0 (pads).
  Ints strides, dilations, pads_begin, pads_end;
  AutoPad auto_pad = AutoPad::kExplicit;
  Rounding rounding = Rounding::kFloor;
};

// Reads the attributes named above; values that no window could have are errors naming them.
absl::StatusOr<WindowOptions> ParseWindows(const Node& node);
// A list attribute of entries >= `least` and below 2^31.
absl::StatusOr<Ints> ParseExtents(const Node& node, const std::string& name, int64_t least);
// Lists that are given have one entry for each of the spatial axes, of which there are one to
// three.
absl::Status CheckWindowRank(const WindowOptions& options, int spatial_rank);

// One axis of a window, everything known.
struct WindowAxis {
  int64_t in = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;
  int64_t out = 1;

  // Kernel positions k with 0 <= o * stride - pad_begin + k * dilation < in, [first, second).
  std::pair<int64_t, int64_t> InsideOf(int64_t o) const;
  // Outputs o for which that holds of kernel position k, [first, second).
  std::pair<int64_t, int64_t> OutputsOf(int64_t k) const;
  friend bool operator==(const WindowAxis&, const WindowAxis&) = default;
};

// The axis with index `spatial` of data with extent `in` under a window of `kernel`; `in` or
// `kernel` < 0: not known, and `out` is -1 unless it follows all the same. InvalidArgument if the
// window is larger than the padded data or empty.
absl::StatusOr<WindowAxis> MakeWindowAxis(const WindowOptions& options, size_t spatial, int64_t in,
                                          int64_t kernel);

// Three axes of known extents; `in` and `kernel` have one to three entries each, checked.
using WindowAxes = std::array<WindowAxis, 3>;
absl::StatusOr<WindowAxes> MakeWindowAxes(const WindowOptions& options,
                                          absl::Span<const int64_t> in,
                                          absl::Span<const int64_t> kernel);

// MaxPool-1, -8, -14 and AvgPool-1, -14, -16 over one to three spatial axes of [N, C, spatial..]:
// attributes kernel, strides, dilations, pads_begin, pads_end, auto_pad, rounding_type.

// Floats and integers. One output, or two (version 8): where each maximum stands, of type
// index_element_type (i64 or i32), counted in the data flattened from `axis` on. The first of equal
// elements wins; NaN never wins. A window that holds nothing but padding or NaN gives the type's
// lowest finite number and index 0 of its plane.
extern const OperatorCode kMaxPool;

// f32 and f64, f16 and bf16 in f32; attribute exclude-pad. The divisor is the number of data
// elements in the window, with exclude-pad false that of all its positions within the pads that the
// attributes give. A window without any gives 0.
extern const OperatorCode kAvgPool;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_WINDOWS_H_
