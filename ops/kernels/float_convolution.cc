// f32 convolutions in four ways; Run chooses by shape. In all of them a position's sum goes over
// input channels and kernel positions in one order of fused multiply-adds, so that all ways give
// the same bits.
//
// 1. RunRows, for few positions and a constant filter: im2col. Each output position becomes a row
//    of its operands (MakeRows), the packed filter is the weight of a GEMM, and the result is
//    transposed to channels.
// 2. RunChannelLanes (float_convolution.h): lanes of a vector are channels, where LanesAreChannels
// says
//    so.
// 3. RunTaps, for one input channel and few outputs: each kernel position is a shifted plane that
//    is added (float_convolution.h).
// 4. RunStrips, for all others: positions are packed into strips of 32 (PackStrip), and the
//    filter's rows are multiplied by them (strip_product.h). A panel of strips and a block of
//    filters stay in the second cache.
//
// A ConvolutionTiling cuts the output plane into tiles and gives the offsets of each operand from a
// position; padded borders are copied. Items, groups, tiles and, where these are too few, channels
// are shared among threads. The operators behind the convolution (ConvolutionEnd) run on each part
// while it is in the cache.
#include "ops/kernels/float_convolution.h"

#include <algorithm>
#include <cmath>

#include "ops/kernels/parallel.h"
#include "ops/kernels/strip_product.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {
namespace {

// Output channels of a group over one input channel up to which taps are faster than strips.
constexpr int64_t kMostTapChannels = 4;
// Floats of strips that are packed at a time, and of the filter that passes over them: both stay in
// a second-level cache.
constexpr int64_t kPanelFloats = int64_t{1} << 16;
constexpr int64_t kMostStrips = 16;
// Rows of a block of the product (ops/kernels/strip_product.cc).
constexpr int64_t kBlockRows = 14;
// Positions that are made rows of a product at a time.
constexpr int64_t kMostRows = 256;
// The cost of moving an element, in multiply-adds: into a row, out of a product's results, into a
// strip.
constexpr int64_t kWorkToMakeRow = 60;
constexpr int64_t kWorkToTurn = 100;
constexpr int64_t kWorkToPack = 8;
// Positions from which on an end takes channel by channel.
constexpr int64_t kLeastEndPlane = 64;
// Elements of rows that are made at a time: the lines that they come from stay in the first cache.
constexpr int64_t kRowElements = 32;

// Buffers of the calling thread.
struct Scratch {
  std::vector<float> copy;
  std::vector<float> strips;
};
Scratch& OwnScratch() {
  static thread_local Scratch scratch;
  return scratch;
}

// The part of `memory` from its first multiple of 64 bytes on; `size` floats at least.
float* Aligned(std::vector<float>& memory, int64_t size) {
  constexpr uintptr_t kAlignment = 64;
  const auto padded = static_cast<size_t>(size) + kAlignment / sizeof(float);
  if (memory.size() < padded) {
    memory.resize(padded);
  }
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t skipped = (kAlignment - address % kAlignment) % kAlignment;
  return memory.data() + skipped / sizeof(float);
}

// The operands of one run.
struct Problem {
  const ConvolutionGeometry& geometry;
  const float* filter;
  const float* in;
  float* out;
  VectorIsa isa;
  const ConvolutionEnd* end;  // or null

  int64_t depth() const { return geometry.in_channels * geometry.Kernel(); }
  const float* group_in(int64_t item, int64_t group) const {
    return in + (item * geometry.groups + group) * geometry.in_channels * geometry.InPlane();
  }
  float* group_out(int64_t item, int64_t group) const {
    return out + (item * geometry.groups + group) * geometry.out_channels * geometry.OutPlane();
  }
  const float* group_filter(int64_t group) const {
    return filter + group * geometry.out_channels * depth();
  }
};

// Channels [first, first + count) of a group's results at a tile's positions.
struct Part {
  int64_t item;
  int64_t group;
  ConvolutionTile tile;
  int64_t first;
  int64_t count;
};

void RunStrips(const Problem& problem, const ConvolutionTiling& tiling, const Part& part) {
  const int64_t depth = problem.depth();
  const int64_t plane = problem.geometry.OutPlane();
  Scratch& scratch = OwnScratch();
  const float* const base =
      tiling.Load(part.tile, problem.group_in(part.item, part.group), scratch.copy);
  const int64_t strip_size = depth * kStripColumns;
  const int64_t most_strips = std::clamp<int64_t>(kPanelFloats / strip_size, 1, kMostStrips);
  float* const panel =
      Aligned(scratch.strips, most_strips * strip_size + ConvolutionTiling::kSlack);
  const int64_t height = EvenTile(part.count, std::max(kPanelFloats / depth, kBlockRows));
  for (int64_t first = 0; first < part.tile.size(); first += most_strips * kStripColumns) {
    const int64_t columns = std::min(most_strips * kStripColumns, part.tile.size() - first);
    for (int64_t at = 0; at < columns; at += kStripColumns) {
      tiling.PackStrip(part.tile, base, first + at, std::min(kStripColumns, columns - at),
                       panel + at * depth);
    }
    for (int64_t channel = part.first; channel < part.first + part.count; channel += height) {
      const int64_t rows = std::min(height, part.first + part.count - channel);
      const ConstMatrix<float> filter = {problem.group_filter(part.group) + channel * depth, rows,
                                         depth, depth};
      float* const out =
          problem.group_out(part.item, part.group) + channel * plane + part.tile.first + first;
      MultiplyStrips(problem.isa, filter, panel, /*from_memory=*/false, {},
                     {out, rows, columns, plane});
      for (int64_t row = 0; problem.end != nullptr && row < rows; ++row) {
        problem.end->Run(part.group * problem.geometry.out_channels + channel + row,
                         out + row * plane, columns);
      }
    }
  }
}

void RunTaps(const Problem& problem, const ConvolutionTiling& tiling, const Part& part) {
  static_assert(kTapSlack <= ConvolutionTiling::kSlack);
  const float* const base =
      tiling.Load(part.tile, problem.group_in(part.item, part.group), OwnScratch().copy);
  const int64_t plane = problem.geometry.OutPlane();
  for (int64_t channel = part.first; channel < part.first + part.count; ++channel) {
    const Taps taps = {tiling.offsets().data(),
                       problem.group_filter(part.group) + channel * problem.depth(),
                       problem.depth(), tiling.row_step()};
    float* const out = problem.group_out(part.item, part.group) + channel * plane + part.tile.first;
    AddTaps(problem.isa, taps, base, part.tile.height, part.tile.width, out);
    if (problem.end != nullptr) {
      problem.end->Run(part.group * problem.geometry.out_channels + channel, out, part.tile.size());
    }
  }
}

// Whether an item's data is already the row of its only output position.
bool IsRow(const ConvolutionGeometry& geometry) {
  return std::all_of(geometry.axes.begin(), geometry.axes.end(), [](const WindowAxis& axis) {
    return axis.out == 1 && axis.in == axis.kernel && axis.pad_begin == 0 &&
           (axis.kernel == 1 || axis.dilation == 1);
  });
}

bool RowsAreFaster(const ConvolutionGeometry& geometry) {
  const auto whole = [](int64_t count) { return CeilDiv(count, kStripColumns) * kStripColumns; };
  const int64_t positions = geometry.OutPlane();
  if (geometry.groups > 1 || positions > kMostRows) {
    return false;
  }
  if (IsRow(geometry)) {
    return true;
  }
  const int64_t depth = geometry.in_channels * geometry.Kernel();
  const int64_t channels = geometry.out_channels;
  const int64_t rows =
      positions * (depth * (whole(channels) + kWorkToMakeRow) + channels * kWorkToTurn);
  return rows < whole(positions) * depth * (channels + kWorkToPack);
}

// rows [tile.size(), depth]: the operands of each output of the tile.
void MakeRows(const ConvolutionTiling& tiling, const ConvolutionTile& tile, const float* base,
              float* rows) {
  const int64_t* const offsets = tiling.offsets().data();
  const auto depth = static_cast<int64_t>(tiling.offsets().size());
  for (int64_t first = 0; first < depth; first += kRowElements) {
    const int64_t end = std::min(depth, first + kRowElements);
    float* row = rows;
    for (int64_t y = 0; y < tile.height; ++y) {
      for (int64_t x = 0; x < tile.width; ++x, row += depth) {
        const float* const from = base + y * tiling.row_step() + x;
        for (int64_t k = first; k < end; ++k) {
          row[k] = from[offsets[k]];
        }
      }
    }
  }
}

}  // namespace

const PackedMatMul& FloatConvolution::Packed(const float* filter, int64_t outputs,
                                             int64_t depth) const {
  const absl::MutexLock lock(&mutex_);
  if (packed_ == nullptr) {
    packed_ = std::make_unique<const PackedMatMul>(
        ConstMatrix<float>{filter, outputs, depth, depth}, /*transposed=*/true);
  }
  return *packed_;
}

void FloatConvolution::RunRows(int num_threads, const ConvolutionGeometry& geometry, int64_t items,
                               const PackedMatMul& filter, const float* in, float* out,
                               const ConvolutionEnd* end) const {
  const int64_t depth = filter.depth();
  const int64_t channels = geometry.out_channels;
  if (IsRow(geometry)) {
    filter.Run(num_threads, {in, items, depth, depth}, {}, {out, items, channels, channels});
    return;
  }
  const int64_t positions = geometry.OutPlane();
  const int64_t in_size = geometry.in_channels * geometry.InPlane();
  const ConvolutionTiling tiling(geometry, /*copies=*/false, /*least=*/1);
  const int64_t at_once = std::max<int64_t>(1, kMostRows / positions);  // items
  std::vector<float> rows(static_cast<size_t>(std::min(items, at_once) * positions * depth));
  std::vector<float> results(static_cast<size_t>(std::min(items, at_once) * positions * channels));
  for (int64_t first = 0; first < items; first += at_once) {
    const int64_t count = std::min(at_once, items - first);
    // 1. A row for each position.
    ParallelFor(num_threads, count, count * positions * depth * 2, [&](int64_t item) {
      for (int64_t i = 0; i < tiling.count(); ++i) {
        const ConvolutionTile tile = tiling.tile(i);
        const float* const base =
            tiling.Load(tile, in + (first + item) * in_size, OwnScratch().copy);
        MakeRows(tiling, tile, base, rows.data() + (item * positions + tile.first) * depth);
      }
    });
    // 2. The product.
    filter.Run(num_threads, {rows.data(), count * positions, depth, depth}, {},
               {results.data(), count * positions, channels, channels});
    // 3. Channels before positions.
    ParallelFor(num_threads, count, count * positions * channels * 2, [&](int64_t item) {
      const float* const from = results.data() + item * positions * channels;
      float* const to = out + (first + item) * positions * channels;
      for (int64_t channel = 0; channel < channels; ++channel) {
        for (int64_t p = 0; p < positions; ++p) {
          to[channel * positions + p] = from[p * channels + channel];
        }
        if (end != nullptr) {
          end->Run(channel, to + channel * positions, positions);
        }
      }
    });
  }
}

void FloatConvolution::Run(int num_threads, const ConvolutionGeometry& geometry, int64_t items,
                           const float* filter, const float* in, float* out,
                           const ConvolutionEnd* end) const {
  if (end != nullptr && geometry.OutPlane() < kLeastEndPlane) {
    Run(num_threads, geometry, items, filter, in, out);
    end->RunPlanes(num_threads, items, geometry.OutPlane(), out);
    return;
  }
  const Problem problem = {geometry, filter, in, out, CurrentVectorIsa(), end};
  if (constant_filter_ && RowsAreFaster(geometry)) {
    RunRows(num_threads, geometry, items, Packed(filter, geometry.out_channels, problem.depth()),
            in, out, end);
    return;
  }
  if (end == nullptr && LanesAreChannels(problem.isa, geometry)) {
    RunChannelLanes(num_threads, geometry, items, filter, in, out);
    return;
  }
  const bool by_taps = geometry.in_channels == 1 && geometry.out_channels <= kMostTapChannels;
  const int64_t groups = items * geometry.groups;
  const int64_t outputs = groups * geometry.out_channels * geometry.OutPlane();
  const int64_t work = outputs > kMinParallelWork
                           ? kMinParallelWork
                           : outputs * std::min(problem.depth(), kMinParallelWork / outputs + 1);
  const int threads = SharingFor(num_threads, work);
  const int64_t least = threads <= 1 ? 1 : CeilDiv(2 * threads, groups);
  const ConvolutionTiling tiling(geometry, /*copies=*/by_taps, least);
  // Channels are shared out where there are not tiles enough: each part loads the tile again.
  const int64_t tiles = groups * tiling.count();
  const int64_t height = SharedTile(geometry.out_channels, geometry.out_channels, tiles, threads);
  const int64_t parts = CeilDiv(geometry.out_channels, height);
  ParallelFor(threads, tiles * parts, [&](int64_t index) {
    const int64_t group = index / parts / tiling.count();
    const int64_t first = index % parts * height;
    const Part part = {group / geometry.groups, group % geometry.groups,
                       tiling.tile(index / parts % tiling.count()), first,
                       std::min(height, geometry.out_channels - first)};
    if (by_taps) {
      RunTaps(problem, tiling, part);
    } else {
      RunStrips(problem, tiling, part);
    }
  });
}

namespace {

constexpr double kExact = 1 << 24;     // f32 holds every whole number up to this
constexpr double kUsualLargest = 255;  // of quantised data without its zero point

double Magnitude(int32_t value) { return std::abs(static_cast<double>(value)); }

}  // namespace

IntegerConvolution::IntegerConvolution(const Tensor& filter, bool grouped) {
  const int32_t* const weights = filter.data<int32_t>();
  const int64_t outputs = grouped ? filter.dim(0) * filter.dim(1) : filter.dim(0);
  const int64_t channels = filter.dim(grouped ? 2 : 1);
  const int64_t kernel = outputs * channels == 0 ? 0 : filter.num_elements() / (outputs * channels);
  std::vector<double> sums(static_cast<size_t>(outputs));  // of the portion in the making
  for (int64_t channel = 0; channel < channels; ++channel) {
    std::vector<double> grown = sums;
    for (int64_t output = 0; output < outputs; ++output) {
      const int32_t* const row = weights + (output * channels + channel) * kernel;
      for (int64_t i = 0; i < kernel; ++i) {
        grown[static_cast<size_t>(output)] += Magnitude(row[i]);
      }
    }
    const double largest = grown.empty() ? 0 : *std::max_element(grown.begin(), grown.end());
    // Groups read separate channels, which a portion can't be cut out of.
    const bool fits = grouped || largest * kUsualLargest < kExact;
    if (portions_.empty() || !fits) {
      portions_.push_back({channel, 0, {}, 0, std::make_unique<FloatConvolution>(true)});
      for (size_t output = 0; output < sums.size(); ++output) {
        grown[output] -= sums[output];
      }
    }
    sums = std::move(grown);
    Portion& portion = portions_.back();
    ++portion.count;
    portion.largest_sum = sums.empty() ? 0 : *std::max_element(sums.begin(), sums.end());
  }
  for (Portion& portion : portions_) {
    for (int64_t output = 0; output < outputs; ++output) {
      const int32_t* const begin = weights + (output * channels + portion.first) * kernel;
      portion.filter.insert(portion.filter.end(), begin, begin + portion.count * kernel);
    }
  }
}

bool IntegerConvolution::Run(int num_threads, const ConvolutionGeometry& geometry,
                             const int32_t* in, int32_t* out) const {
  const int64_t in_plane = geometry.InPlane();
  const int64_t results = geometry.groups * geometry.out_channels * geometry.OutPlane();
  std::fill(out, out + results, 0);
  std::vector<float> source;
  std::vector<float> sums(static_cast<size_t>(results));
  for (const Portion& portion : portions_) {
    const int32_t* const begin = in + portion.first * in_plane;
    const int32_t* const end = begin + geometry.groups * portion.count * in_plane;
    double largest = 0;
    source.clear();
    for (const int32_t* value = begin; value != end; ++value) {
      largest = std::max(largest, Magnitude(*value));
      source.push_back(static_cast<float>(*value));
    }
    if (largest * portion.largest_sum >= kExact) {
      return false;
    }
    ConvolutionGeometry part = geometry;
    part.in_channels = portion.count;
    portion.convolution->Run(num_threads, part, 1, portion.filter.data(), source.data(),
                             sums.data());
    std::transform(sums.begin(), sums.end(), out, out,
                   [](float sum, int32_t before) { return before + static_cast<int32_t>(sum); });
  }
  return !portions_.empty();
}

}  // namespace beamwright::ops
