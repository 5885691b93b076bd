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

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/convolution.h"
#include "ops/kernels/elementwise_chain.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// Around the products of a convolution: how its input is cut into tiles that stay in the cache, and
// what follows element by element while a part of the result is there.

// What follows a convolution element by element, its bias and its activation, while a part of the
// result is still in the cache. In no file: nodes behind a convolution join it when a graph is
// compiled (ops/passes/convolution_fusion.cc). The functions are those of the operators, and so are
// the bits.

// Immutable, and thread-safe.
class ConvolutionEnd {
 public:
  // chain: value 0 is the convolution's, the next ones are `constants`, each f32 of one element or
  // of one for each of `channels`; its one result is the last function's. InvalidArgument for
  // others.
  static absl::StatusOr<ConvolutionEnd> Make(const ChainOptions& chain,
                                             absl::Span<const Tensor* const> constants,
                                             int64_t channels);

  // Puts results in the place of `count` elements of one channel.
  void Run(int64_t channel, float* values, int64_t count) const;
  // The same for whole results [items, channels, positions] of few positions, on up to num_threads
  // threads.
  void RunPlanes(int num_threads, int64_t items, int64_t positions, float* values) const;

 private:
  // A function. Operands: values of the chain.
  struct Step {
    ElementApply of_channel;   // for elements of one channel
    ElementApply of_channels;  // for elements of several
    int64_t first;
    int64_t second;
    std::array<float, 2> bounds;
  };

  bool IsConstant(int64_t value) const {
    return value > 0 && value <= static_cast<int64_t>(constants_.size());
  }
  // The number, if the value is a constant with one number for all channels.
  std::optional<float> NumberOf(int64_t value) const;
  // The operand that is a constant, and the other one; nothing: none is, or both are.
  std::optional<std::pair<int64_t, int64_t>> ConstantAndOther(
      const ChainOptions::Function& function) const;
  absl::StatusOr<Step> StepOf(const ChainOptions::Function& function) const;
  bool TakeBias(const ChainOptions& chain);
  bool TakeClamp(const ChainOptions& chain);
  bool TakeHardSwish(const ChainOptions& chain);
  // Steps from `first` on. constants: what they read of each, one number or, of_channels, `count`.
  void RunSteps(size_t first, absl::Span<const float* const> constants, float* values,
                int64_t count, bool of_channels) const;

  std::vector<std::vector<float>> constants_;
  std::vector<Step> steps_;  // all functions
  int64_t channels_ = 0;
  // Elements of one channel: 1. a bias; 2. a hard swish, or bounds; 3. steps from `done_` on.
  int64_t bias_ = 0;  // a value of the chain; 0: none
  std::array<float, 2> bounds_ = ChainOptions::kNoBounds;
  std::optional<HardSwish> swish_;
  int64_t done_ = 0;  // functions in 1. and 2.: what the last one gives is in the values' place
};

// How a convolution's input is cut into tiles that stay in the cache, and read there.
//
// A tile is a rectangle of one output plane. Its input, all channels of the group, is copied once:
// with zeros where the window reaches into the padding, and with the columns of a strided axis
// sorted by their remainder, so that what one position of the window multiplies for neighbouring
// outputs are neighbours in memory. So position k of the window reads its operand for output (y, x)
// of a tile at base[offsets[k] + y * row_step + x], and no loop looks at borders, strides or
// dilations. A window of one element over unpadded data reads the data where it is.

// Outputs [y, y + height) x [x, x + width) of output plane z.
struct ConvolutionTile {
  int64_t z = 0;
  int64_t y = 0;
  int64_t x = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t first =
      0;  // of its outputs, in the item's plane [depth, height, width]: they are adjacent

  int64_t size() const { return height * width; }
};

class ConvolutionTiling {
 public:
  // Floats that a copy may be read beyond its end.
  static constexpr int64_t kSlack = 32;

  // copies: data is copied even where it could be read in place. least: tiles to have at least, so
  // that each thread gets some, where the extents allow it.
  ConvolutionTiling(const ConvolutionGeometry& geometry, bool copies, int64_t least);

  // The data is read in place, and not beyond the last output of a tile.
  bool in_place() const { return in_place_; }
  int64_t count() const { return planes_ * across_ * down_; }
  ConvolutionTile tile(int64_t index) const;
  // For each position of the filter of one output channel, [in_channels, kernel..].
  const std::vector<int64_t>& offsets() const { return offsets_; }
  int64_t row_step() const { return row_step_; }

  // The base of a tile. in: the channels of the group, [in_channels, spatial..]. `copy` keeps the
  // copy, with kSlack floats behind it.
  const float* Load(const ConvolutionTile& tile, const float* in, std::vector<float>& copy) const;

  // The operands of `count` outputs (at most 32) from output `first` of the tile on, as a strip of
  // ops/kernels/strip_product.h: [filter positions, 32]. Overwrites up to kSlack floats behind it.
  void PackStrip(const ConvolutionTile& tile, const float* base, int64_t first, int64_t count,
                 float* strip) const;

 private:
  int64_t CopySize(int64_t height, int64_t width) const;
  void CopyRow(const float* from, int64_t x, float* to) const;

  const ConvolutionGeometry& geometry_;
  bool in_place_ = false;
  int64_t planes_ = 1;
  int64_t height_ = 1;
  int64_t width_ = 1;
  int64_t tile_height_ = 1;
  int64_t tile_width_ = 1;
  int64_t down_ = 1;
  int64_t across_ = 1;
  // Of a copy: columns of one remainder, remainders, floats from row to row and rows of a plane.
  int64_t pitch_ = 0;
  int64_t phases_ = 1;
  int64_t line_ = 0;
  int64_t rows_ = 0;
  int64_t row_step_ = 0;
  std::vector<int64_t> offsets_;
};

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
// chunk at a time: lanes are channels.

// Whether RunChannelLanes takes this convolution, and is faster than rows of positions
// (ops/kernels/float_convolution.h), whose vectors few positions leave half empty.
bool LanesAreChannels(VectorIsa isa, const ConvolutionGeometry& geometry);

// As FloatConvolution::Run, to the same bits.
void RunChannelLanes(int num_threads, const ConvolutionGeometry& geometry, int64_t items,
                     const float* filter, const float* in, float* out);

// Rows of outputs of a convolution over one channel, as depthwise convolutions have them: sums of
// shifted rows.

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
