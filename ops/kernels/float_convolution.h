// Convolutions in f32. An element of the result is one chain of fused multiply-adds from 0, in the
// order of the filter's elements (input channel, then position of the window), in which padding
// counts as zeros. None of the ways below changes that order, so bits depend on neither the way
// nor the batch, the threads, the instruction set or the place in the picture.
//
//   strips   channels of the result are the rows of a product, its positions the columns: the
//            data becomes strips of 32 positions, a few at a time (ops/kernels/strip_product.h);
//   rows     positions are the rows, channels the columns, of a packed filter: pictures of few
//            positions, which would leave most lanes of a strip empty;
//   taps     sums of shifted rows: depthwise convolutions,
//   lanes    of few positions, whose lanes are channels (channel_lanes.h).
#ifndef BEAMWRIGHT_OPS_KERNELS_FLOAT_CONVOLUTION_H_
#define BEAMWRIGHT_OPS_KERNELS_FLOAT_CONVOLUTION_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ops/kernels/convolution.h"
#include "ops/kernels/convolution_end.h"
#include "ops/kernels/packed_matmul.h"

namespace beamwright::ops {

class FloatConvolution {
 public:
  // constant_filter: all runs have the same filter, so that its packed form may be kept.
  explicit FloatConvolution(bool constant_filter) : constant_filter_(constant_filter) {}

  // filter [groups * out_channels, in_channels, kernel..], in [items, groups * in_channels,
  // spatial..], out [items, groups * out_channels, spatial..]: dense and not empty. end: what is
  // done with each element of the result, or null. On up to num_threads threads where the work
  // pays. Thread-safe.
  void Run(int num_threads, const ConvolutionGeometry& geometry, int64_t items, const float* filter,
           const float* in, float* out, const ConvolutionEnd* end = nullptr) const;

 private:
  void RunRows(int num_threads, const ConvolutionGeometry& geometry, int64_t items,
               const PackedMatMul& filter, const float* in, float* out,
               const ConvolutionEnd* end) const;
  const PackedMatMul& Packed(const float* filter, int64_t outputs, int64_t depth) const;

  const bool constant_filter_;
  mutable absl::Mutex mutex_;
  mutable std::unique_ptr<const PackedMatMul> packed_ ABSL_GUARDED_BY(mutex_);  // or null
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_FLOAT_CONVOLUTION_H_
