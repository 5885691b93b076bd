// Convolution-1 and GroupConvolution-1, and their transposes ConvolutionBackpropData-1 and
// GroupConvolutionBackpropData-1, over one to three spatial axes: f32 and f64, f16 and bf16 in f32;
// the first two also i32, which wraps (in f32 where that is exact, float_convolution.h).
// Attributes strides, dilations, pads_begin, pads_end, auto_pad.
//
// Elements are summed in the order input channel, then filter position, in f32 by fused
// multiply-adds (float_convolution.h): an item's bits follow from the item alone.
#ifndef BEAMWRIGHT_OPS_KERNELS_CONVOLUTION_H_
#define BEAMWRIGHT_OPS_KERNELS_CONVOLUTION_H_

#include "ops/kernels/operator_code.h"
#include "ops/kernels/windows.h"

namespace beamwright::ops {

// data [N, C, spatial..], filter [C_out, C, spatial..] or with groups [G, C_out/G, C/G, spatial..].
extern const OperatorCode kConvolution;
extern const OperatorCode kGroupConvolution;
// A convolution with what follows it (ops/kernels/float_convolution.h), f32 alone. In no file:
// passes make it. Inputs: data, filter, constants of the chain; attributes: the convolution's,
// `grouped`, and those of the chain, whose value 0 is the convolution.
inline constexpr char kConvolutionChainName[] = "ConvolutionChain";
extern const OperatorCode kConvolutionChain;
// data [N, C, spatial..], filter [C, C_out, spatial..] or [G, C/G, C_out/G, spatial..]; attribute
// output_padding. The input output_shape is refused.
extern const OperatorCode kConvolutionBackpropData;
extern const OperatorCode kGroupConvolutionBackpropData;

// One item's convolution, all extents known. in_channels and out_channels are those of a group.
struct ConvolutionGeometry {
  int64_t groups = 1;
  int64_t in_channels = 1;
  int64_t out_channels = 1;
  WindowAxes axes;

  int64_t InPlane() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t OutPlane() const { return axes[0].out * axes[1].out * axes[2].out; }
  int64_t Kernel() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
  friend bool operator==(const ConvolutionGeometry&, const ConvolutionGeometry&) = default;
};

// What the four operators say of their inputs' types, ranks and channels.
struct ConvolutionChannels {
  int64_t groups = 1;
  int64_t in = PartialShape::kDynamic;   // of a group
  int64_t out = PartialShape::kDynamic;  // of a group
  int spatial_rank = -1;                 // -1: not known yet

  int64_t all_out() const { return groups < 0 || out < 0 ? PartialShape::kDynamic : groups * out; }
};
// transposed: the filter has input channels first.
absl::StatusOr<ConvolutionChannels> CheckConvolutionInputs(absl::Span<const InputInfo> inputs,
                                                           bool grouped, bool transposed);
// Rows of data along axis 0 and a filter that is the same for all.
RowInfo ConvolutionRows(const Node& node, absl::Span<const RowInfo> rows,
                        absl::Span<const InputInfo> inputs);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_CONVOLUTION_H_
