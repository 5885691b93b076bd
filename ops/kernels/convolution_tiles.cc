// The rectangles of outputs that a convolution computes one after another, and the copies of the
// data that they read. A convolution is a product of the filter with a matrix that has a column per
// output and a row per element of the window; that matrix would be many times the data (9 times for
// a window of 3 x 3). Instead:
//
// 1. ConvolutionTiling divides the outputs into tiles whose part of the data fits into a
//    second-level cache; into more tiles, if threads would have no work.
// 2. Load copies a tile's part of the data, with zeros for the padding. With a stride, columns are
//    sorted by phase (column modulo stride), so that the operands of neighbouring outputs are
//    neighbours in the copy.
// 3. PackStrip takes kStripColumns outputs and copies their operands, row by row of the matrix,
//    into a strip that the product's kernel reads. offsets_ says where in the copy each row of the
//    matrix begins, for the tile's first output; an output's place is added. Outputs from several
//    lines of the tile are several segments.
//
// A convolution with a window of 1 and stride 1 reads the data in place.
#include "ops/kernels/convolution_tiles.h"

#include <algorithm>

#include "ops/base/vector_isa.h"
#include "ops/kernels/strip_product.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {
namespace {

// Most floats of a copy: a second-level cache holds it together with a panel and a part of the
// filter.
constexpr int64_t kMostCopy = int64_t{1} << 16;

// Elements that the window covers, from its first to its last.
int64_t Span(const WindowAxis& axis) { return (axis.kernel - 1) * axis.dilation + 1; }

bool IsTrivial(const WindowAxis& axis) {
  return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
}

// Neighbouring outputs whose operands are neighbours in the copy.
struct Segment {
  int64_t at;    // in a line of the strip
  int64_t from;  // behind the line's offset
};

template <int64_t kCount>
BW_ALWAYS_INLINE inline void Copy(const float* from, float* to) {
  for (int64_t i = 0; i < kCount; ++i) {
    to[i] = from[i];
  }
}

// Copies segments in their order, each kCount floats long, which may be more than it has: the next
// one overwrites the excess.
template <int64_t kCount>
void CopySegments(const float* base, const std::vector<int64_t>& offsets, const Segment* segments,
                  int64_t num_segments, float* strip) {
  const int64_t* const offset = offsets.data();
  const auto depth = static_cast<int64_t>(offsets.size());
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (int64_t k = 0; k < depth; ++k) {
      const float* const from = base + offset[k];
      float* const to = strip + k * kStripColumns;
      for (int64_t i = 0; i < num_segments; ++i) {
        Copy<kCount>(from + segments[i].from, to + segments[i].at);
      }
    }
  });
}

}  // namespace

ConvolutionTiling::ConvolutionTiling(const ConvolutionGeometry& geometry, bool copies,
                                     int64_t least)
    : geometry_(geometry) {
  const auto& [depth, height, width] = geometry.axes;
  in_place_ = !copies && IsTrivial(depth) && IsTrivial(height) && IsTrivial(width);
  planes_ = in_place_ ? 1 : depth.out;
  height_ = in_place_ ? 1 : height.out;
  width_ = in_place_ ? geometry.OutPlane() : width.out;
  phases_ = std::min(width.stride, Span(width));
  // 1. The largest rectangle whose copy fits: whole rows, or a part of one.
  tile_height_ = height_;
  tile_width_ = width_;
  if (!in_place_) {
    while (tile_height_ > 1 && CopySize(tile_height_, tile_width_) > kMostCopy) {
      tile_height_ = CeilDiv(tile_height_, 2);
    }
    while (tile_width_ > kStripColumns && CopySize(tile_height_, tile_width_) > kMostCopy) {
      tile_width_ = CeilDiv(CeilDiv(tile_width_, 2), kStripColumns) * kStripColumns;
    }
  }
  // 2. Smaller ones if threads would go without.
  const auto count = [&] {
    return planes_ * CeilDiv(height_, tile_height_) * CeilDiv(width_, tile_width_);
  };
  while (count() < least && tile_height_ > 1) {
    tile_height_ = CeilDiv(tile_height_, 2);
  }
  while (count() < least && tile_height_ == 1 && tile_width_ > 2 * kStripColumns) {
    tile_width_ = CeilDiv(CeilDiv(tile_width_, 2), kStripColumns) * kStripColumns;
  }
  down_ = CeilDiv(height_, tile_height_);
  across_ = CeilDiv(width_, tile_width_);
  // 3. Where a copy has the operands.
  const int64_t span = Span(height);
  pitch_ = tile_width_ + (Span(width) - 1) / width.stride;
  line_ = phases_ * pitch_;
  rows_ = (tile_height_ - 1) * height.stride + span;
  row_step_ = height.stride * line_;
  offsets_.reserve(static_cast<size_t>(geometry.in_channels * geometry.Kernel()));
  for (int64_t channel = 0; channel < geometry.in_channels; ++channel) {
    if (in_place_) {
      offsets_.push_back(channel * geometry.InPlane());
      continue;
    }
    for (int64_t kd = 0; kd < depth.kernel; ++kd) {
      for (int64_t kh = 0; kh < height.kernel; ++kh) {
        const int64_t row = ((channel * depth.kernel + kd) * rows_ + kh * height.dilation) * line_;
        for (int64_t kw = 0; kw < width.kernel; ++kw) {
          const int64_t column = kw * width.dilation;
          offsets_.push_back(row + column % width.stride * pitch_ + column / width.stride);
        }
      }
    }
  }
}

int64_t ConvolutionTiling::CopySize(int64_t height, int64_t width) const {
  const auto& axes = geometry_.axes;
  return geometry_.in_channels * axes[0].kernel * ((height - 1) * axes[1].stride + Span(axes[1])) *
         phases_ * (width + (Span(axes[2]) - 1) / axes[2].stride);
}

ConvolutionTile ConvolutionTiling::tile(int64_t index) const {
  ConvolutionTile tile;
  tile.z = index / (down_ * across_);
  tile.y = index / across_ % down_ * tile_height_;
  tile.x = index % across_ * tile_width_;
  tile.height = std::min(tile_height_, height_ - tile.y);
  tile.width = std::min(tile_width_, width_ - tile.x);
  tile.first = (tile.z * height_ + tile.y) * width_ + tile.x;
  return tile;
}

// Copies one row of the data from the column that output x reads first; zeros if `from` is null, in
// the padding.
void ConvolutionTiling::CopyRow(const float* from, int64_t x, float* to) const {
  const WindowAxis& width = geometry_.axes[2];
  if (from == nullptr) {
    std::fill(to, to + line_, 0.0f);
    return;
  }
  for (int64_t phase = 0; phase < phases_; ++phase, to += pitch_) {
    const int64_t start = x * width.stride - width.pad_begin + phase;  // the column of to[0]
    const auto index = [&](int64_t column) {  // of the first that is not before `column`
      const int64_t distance = column - start;
      return std::clamp<int64_t>(distance <= 0 ? 0 : CeilDiv(distance, width.stride), 0, pitch_);
    };
    const int64_t begin = index(0);
    const int64_t end = std::max(begin, index(width.in));
    std::fill(to, to + begin, 0.0f);
    if (width.stride == 1 && begin < end) {
      std::copy_n(from + start + begin, end - begin, to + begin);
    } else {
      for (int64_t i = begin; i < end; ++i) {
        to[i] = from[start + i * width.stride];
      }
    }
    std::fill(to + end, to + pitch_, 0.0f);
  }
}

const float* ConvolutionTiling::Load(const ConvolutionTile& tile, const float* in,
                                     std::vector<float>& copy) const {
  if (in_place_) {
    return in + tile.x;
  }
  const auto& [depth, height, width] = geometry_.axes;
  const int64_t planes = geometry_.in_channels * depth.kernel;
  const auto size = static_cast<size_t>(planes * rows_ * line_ + kSlack);
  if (copy.size() < size) {
    copy.resize(size);
  }
  const int64_t rows = (tile.height - 1) * height.stride + Span(height);
  const int64_t first_row = tile.y * height.stride - height.pad_begin;
  for (int64_t plane = 0; plane < planes; ++plane) {
    const int64_t z =
        tile.z * depth.stride + plane % depth.kernel * depth.dilation - depth.pad_begin;
    const int64_t first = (plane / depth.kernel * depth.in + z) * height.in;  // row of the data
    float* const to = copy.data() + plane * rows_ * line_;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t y = first_row + row;
      const bool inside = z >= 0 && z < depth.in && y >= 0 && y < height.in;
      CopyRow(inside ? in + (first + y) * width.in : nullptr, tile.x, to + row * line_);
    }
  }
  return copy.data();
}

void ConvolutionTiling::PackStrip(const ConvolutionTile& tile, const float* base, int64_t first,
                                  int64_t count, float* strip) const {
  if (in_place_ && count < kStripColumns) {
    for (size_t k = 0; k < offsets_.size(); ++k) {
      const float* const from = base + offsets_[k] + first;
      std::copy(from, from + count, strip + static_cast<int64_t>(k) * kStripColumns);
    }
    return;
  }
  Segment segments[kStripColumns];
  int64_t num_segments = 0;
  int64_t longest = 0;
  for (int64_t at = 0; at < count;) {
    const int64_t y = (first + at) / tile.width;
    const int64_t x = (first + at) % tile.width;
    const int64_t length = std::min(tile.width - x, count - at);
    segments[num_segments++] = {at, y * row_step_ + x};
    longest = std::max(longest, length);
    at += length;
  }
  if (longest <= kStripColumns / 4) {
    CopySegments<kStripColumns / 4>(base, offsets_, segments, num_segments, strip);
  } else if (longest <= kStripColumns / 2) {
    CopySegments<kStripColumns / 2>(base, offsets_, segments, num_segments, strip);
  } else {
    CopySegments<kStripColumns>(base, offsets_, segments, num_segments, strip);
  }
}

}  // namespace beamwright::ops
