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
//   lanes    of few positions, whose lanes are channels.
#ifndef BEAMWRIGHT_OPS_KERNELS_FLOAT_CONVOLUTION_H_
#define BEAMWRIGHT_OPS_KERNELS_FLOAT_CONVOLUTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/convolution.h"
#include "ops/kernels/convolution_tiles.h"
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

// Convolutions of i32 with a constant filter, as files of quantised networks have them
// (ConvInteger, QLinearConv): computed in f32 where that is exact. Quantised values have
// nine bits with their zero point taken off, and f32 holds every whole number up to 2^24: sums that
// stay below come out the same in any order. Channels are taken in as many portions as that needs.

class IntegerConvolution {
 public:
  // filter: i32, [C_out, C, spatial..] or with groups [G, C_out / G, C / G, spatial..].
  IntegerConvolution(const Tensor& filter, bool grouped);

  // One item [G * C, spatial..] to [G * C_out, spatial..]. False if values are too large to be
  // exact; `out` is undefined then. Callable by many threads at once.
  bool Run(int num_threads, const ConvolutionGeometry& geometry, const int32_t* in,
           int32_t* out) const;

 private:
  // Channels [first, first + count) of the input.
  struct Portion {
    int64_t first = 0;
    int64_t count = 0;
    std::vector<float> filter;
    double largest_sum = 0;  // of the magnitudes of one output channel's weights
    std::unique_ptr<const FloatConvolution> convolution;
  };

  std::vector<Portion> portions_;
};

// Depthwise convolutions in f32: rows of outputs over one channel, and, where a chunk has few
// positions, channels as lanes.

// Depthwise convolutions over few positions, as those of zipformers and conformers that read a
// chunk at a time: lanes are channels. Private to the convolutions in f32.

// Whether RunChannelLanes takes this convolution, and is faster than rows of positions
// (ops/kernels/float_convolution.h), whose vectors few positions leave half empty.
bool LanesAreChannels(VectorIsa isa, const ConvolutionGeometry& geometry);

// As FloatConvolution::Run, to the same bits.
void RunChannelLanes(int num_threads, const ConvolutionGeometry& geometry, int64_t items,
                     const float* filter, const float* in, float* out);

// Rows of outputs of a convolution over one channel, as depthwise convolutions have them: sums of
// shifted rows. Private to the convolutions in f32.

// The operands of output x of row y are from[offsets[tap] + y * row_step + x].
struct Taps {
  const int64_t* offsets;  // [count]
  const float* weights;    // [count]
  int64_t count;
  int64_t row_step;
};

// out [height, width], dense: each from 0 one chain of fused multiply-adds in the order of the
// taps, in blocks of several rows, so that there are chains enough to hide their latency. Up to
// kTapSlack floats behind the last operand of a tap are read.
inline constexpr int64_t kTapSlack = 15;
void AddTaps(VectorIsa isa, const Taps& taps, const float* from, int64_t height, int64_t width,
             float* out);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_FLOAT_CONVOLUTION_H_
