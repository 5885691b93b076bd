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
#include <algorithm>
#include <limits>

#include "ops/base/status.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/float_convolution.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/strip_product.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {

// The element-wise functions that follow a convolution, such as a bias and an activation, applied
// to its sums while they are in the cache instead of in a pass over the whole output.
//
// Make takes a chain of functions (ChainOptions) whose first operand is the convolution's output
// and whose other operands are constants: numbers, or one number per channel.
//
// 1. TakeBias, TakeHardSwish and TakeClamp recognise the usual ends: y + bias; y clamp(y + 3, 0, 6)
//    / 6; ReLU and Clamp. These are one loop (AddAndClamp, ApplyHardSwish).
// 2. Other functions are steps that run over blocks of kBlock elements (RunSteps), one function
//    after another, with results in a scratch buffer.
//
// Run is for one channel's values: every constant is a number then. RunPlanes is for whole planes
// [channels, positions], of few positions each, where calls per channel would be short: the
// constants are spread to one per element, so that blocks need not end with channels.
//
// A function may be taken into the fused beginning only if no later one reads what comes before it
// (ReadsBefore).

namespace {

constexpr int64_t kBlock = 512;     // elements that pass through all steps at a time
constexpr int64_t kWorkOfStep = 4;  // multiply-adds that a step of an element is worth

// Whether functions from number `from` on read a value from before function from - 1, that is, the
// convolution's output or the result of an earlier function.
bool ReadsBefore(const ChainOptions& chain, int64_t num_inputs, int64_t from) {
  return std::any_of(chain.functions.begin() + from, chain.functions.end(),
                     [&](const ChainOptions::Function& function) {
                       const auto is_before = [&](int64_t value) {
                         return value == 0 ||
                                (value >= num_inputs && value < num_inputs + from - 1);
                       };
                       return is_before(function.first) || is_before(function.second);
                     });
}

}  // namespace

std::optional<float> ConvolutionEnd::NumberOf(int64_t value) const {
  if (!IsConstant(value) || constants_[static_cast<size_t>(value - 1)].size() != 1) {
    return std::nullopt;
  }
  return constants_[static_cast<size_t>(value - 1)][0];
}

std::optional<std::pair<int64_t, int64_t>> ConvolutionEnd::ConstantAndOther(
    const ChainOptions::Function& function) const {
  if (function.second < 0 || IsConstant(function.first) == IsConstant(function.second)) {
    return std::nullopt;
  }
  return IsConstant(function.first) ? std::pair(function.first, function.second)
                                    : std::pair(function.second, function.first);
}

bool ConvolutionEnd::TakeBias(const ChainOptions& chain) {
  const ChainOptions::Function& function = chain.functions[0];
  const auto operands = ConstantAndOther(function);
  const auto num_inputs = static_cast<int64_t>(constants_.size()) + 1;
  if (function.op != "Add" || !operands.has_value() || ReadsBefore(chain, num_inputs, 1)) {
    return false;
  }
  bias_ = operands->first;
  return true;
}

bool ConvolutionEnd::TakeClamp(const ChainOptions& chain) {
  if (done_ == static_cast<int64_t>(chain.functions.size())) {
    return false;
  }
  const ChainOptions::Function& function = chain.functions[static_cast<size_t>(done_)];
  const auto num_inputs = static_cast<int64_t>(constants_.size()) + 1;
  if ((function.op != "ReLU" && function.op != "Clamp") ||
      ReadsBefore(chain, num_inputs, done_ + 1)) {
    return false;
  }
  bounds_ = function.op == "Clamp"
                ? function.bounds
                : std::array<float, 2>{0.0f, std::numeric_limits<float>::infinity()};
  return true;
}

// y * clamp(y + shift) / last, or * last.
bool ConvolutionEnd::TakeHardSwish(const ChainOptions& chain) {
  constexpr int64_t kFunctions = 4;
  const auto num_inputs = static_cast<int64_t>(constants_.size()) + 1;
  if (static_cast<int64_t>(chain.functions.size()) < done_ + kFunctions ||
      ReadsBefore(chain, num_inputs, done_ + kFunctions)) {
    return false;
  }
  const ChainOptions::Function* const f = chain.functions.data() + done_;
  const int64_t y = done_ == 0 ? 0 : num_inputs + done_ - 1;
  const int64_t given = num_inputs + done_;  // what f[0] gives
  const auto shift = ConstantAndOther(f[0]);
  const auto last = ConstantAndOther(f[3]);
  const bool multiplies = f[2].op == "Multiply" && std::min(f[2].first, f[2].second) == y &&
                          std::max(f[2].first, f[2].second) == given + 1;
  if (f[0].op != "Add" || !shift.has_value() || shift->second != y ||
      !NumberOf(shift->first).has_value() || f[1].op != "Clamp" || f[1].first != given ||
      !multiplies || !last.has_value() || last->second != given + 2 ||
      !NumberOf(last->first).has_value()) {
    return false;
  }
  const bool divides = f[3].op == "Divide" && f[3].second == last->first;
  if (!divides && f[3].op != "Multiply") {
    return false;
  }
  swish_ = {*NumberOf(shift->first), f[1].bounds[0], f[1].bounds[1], *NumberOf(last->first),
            divides};
  done_ += kFunctions;
  return true;
}

absl::StatusOr<ConvolutionEnd::Step> ConvolutionEnd::StepOf(
    const ChainOptions::Function& function) const {
  const bool first = IsConstant(function.first);
  const bool second = IsConstant(function.second);
  if (first && (second || function.second < 0)) {
    return Invalid("a function of a convolution's end reads constants alone");
  }
  const ElementFunction& found = *FindElementFunction(function.op);
  const auto choose = [&](bool first_is_one, bool second_is_one) {
    return first_is_one ? found.first_is_one : second_is_one ? found.second_is_one : found.apply;
  };
  return Step{choose(first, second),
              choose(NumberOf(function.first).has_value(), NumberOf(function.second).has_value()),
              function.first, function.second, function.bounds};
}

absl::StatusOr<ConvolutionEnd> ConvolutionEnd::Make(const ChainOptions& chain,
                                                    absl::Span<const Tensor* const> constants,
                                                    int64_t channels) {
  ConvolutionEnd end;
  for (const Tensor* const constant : constants) {
    if (constant == nullptr || constant->dtype() != DType::kF32 ||
        (constant->num_elements() != 1 && constant->num_elements() != channels)) {
      return Invalid("constants of a convolution's end must be known, f32, of one element or one ",
                     "for each channel");
    }
    end.constants_.emplace_back(constant->data<float>(),
                                constant->data<float>() + constant->num_elements());
  }
  const auto count = static_cast<int64_t>(chain.functions.size());
  if (chain.windows.size() != constants.size() + 1 || count == 0 || chain.results.size() != 1 ||
      chain.results[0] != count - 1) {
    return Invalid("a convolution's end must have one result, that of its last function");
  }
  for (const ChainOptions::Function& function : chain.functions) {
    BW_ASSIGN_OR_RETURN(const Step step, end.StepOf(function));
    end.steps_.push_back(step);
  }
  end.channels_ = channels;
  end.done_ = end.TakeBias(chain) ? 1 : 0;
  if (!end.TakeHardSwish(chain) && end.TakeClamp(chain)) {
    ++end.done_;
  }
  return end;
}

void ConvolutionEnd::RunSteps(size_t first, absl::Span<const float* const> constants, float* values,
                              int64_t count, bool of_channels) const {
  alignas(64) float scratch[kMostChainValues][kBlock];
  const float* operands[kMostChainValues];
  const size_t num_inputs = constants.size() + 1;
  operands[0] = values;
  std::copy(constants.begin(), constants.end(), operands + 1);
  if (first > 0) {
    operands[num_inputs + first - 1] = values;
  }
  const float* last = values;
  for (size_t i = first; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const float* const second =
        step.second < 0 ? step.bounds.data() : operands[static_cast<size_t>(step.second)];
    const ElementApply apply = of_channels ? step.of_channels : step.of_channel;
    apply(operands[static_cast<size_t>(step.first)], second, count, scratch[i - first]);
    last = scratch[i - first];
    operands[num_inputs + i] = last;
  }
  std::copy_n(last, count, values);
}

void ConvolutionEnd::RunPlanes(int num_threads, int64_t items, int64_t positions,
                               float* values) const {
  // 1. Constants of channels, an element for each position, so that blocks know no channels.
  const int64_t size = channels_ * positions;
  std::vector<std::vector<float>> spread(constants_.size());
  for (size_t i = 0; i < constants_.size(); ++i) {
    for (int64_t channel = 0; constants_[i].size() > 1 && channel < channels_; ++channel) {
      spread[i].insert(spread[i].end(), static_cast<size_t>(positions),
                       constants_[i][static_cast<size_t>(channel)]);
    }
  }
  // 2. Blocks of an item.
  const int64_t blocks = CeilDiv(size, kBlock);
  const auto work = static_cast<int64_t>(steps_.size()) * kWorkOfStep;
  ParallelFor(num_threads, items * blocks, items * size * work, [&](int64_t index) {
    const int64_t first = index % blocks * kBlock;
    const float* constants[kMostChainValues];
    for (size_t i = 0; i < spread.size(); ++i) {
      constants[i] = spread[i].empty() ? constants_[i].data() : spread[i].data() + first;
    }
    RunSteps(0, absl::MakeConstSpan(constants, spread.size()),
             values + index / blocks * size + first, std::min(kBlock, size - first),
             /*of_channels=*/true);
  });
}

void ConvolutionEnd::Run(int64_t channel, float* values, int64_t count) const {
  const bool biased = bias_ > 0;
  float bias = 0;
  if (biased) {
    const std::vector<float>& biases = constants_[static_cast<size_t>(bias_ - 1)];
    bias = biases[biases.size() == 1 ? 0 : static_cast<size_t>(channel)];
  }
  if (swish_.has_value()) {
    ApplyHardSwish(*swish_, biased, bias, count, values);
  } else if (biased) {
    AddAndClamp(bias, bounds_[0], bounds_[1], count, values);
  } else if (bounds_ != ChainOptions::kNoBounds) {
    // Nothing is added: -0 + 0 would be 0.
    AddAndClamp(-0.0f, bounds_[0], bounds_[1], count, values);
  }
  const auto done = static_cast<size_t>(done_);
  if (done == steps_.size()) {
    return;
  }
  const float* constants[kMostChainValues];
  for (size_t i = 0; i < constants_.size(); ++i) {
    constants[i] = constants_[i].data() + (constants_[i].size() == 1 ? 0 : channel);
  }
  for (int64_t first = 0; first < count; first += kBlock) {
    RunSteps(done, absl::MakeConstSpan(constants, constants_.size()), values + first,
             std::min(kBlock, count - first), /*of_channels=*/false);
  }
}

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
