// How a convolution's input is cut into tiles that stay in the cache, and read there. Private to
// the convolutions in f32.
//
// A tile is a rectangle of one output plane. Its input, all channels of the group, is copied once:
// with zeros where the window reaches into the padding, and with the columns of a strided axis
// sorted by their remainder, so that what one position of the window multiplies for neighbouring
// outputs are neighbours in memory. So position k of the window reads its operand for output (y, x)
// of a tile at base[offsets[k] + y * row_step + x], and no loop looks at borders, strides or
// dilations. A window of one element over unpadded data reads the data where it is.
#ifndef BEAMWRIGHT_OPS_KERNELS_CONVOLUTION_TILES_H_
#define BEAMWRIGHT_OPS_KERNELS_CONVOLUTION_TILES_H_

#include <vector>

#include "ops/kernels/convolution.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_CONVOLUTION_TILES_H_
