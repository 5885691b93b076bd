// The log-sum-exp of a row of scores, and the largest score of each block of it, for the selection
// of candidates.
//
// A row is divided into panels; a panel's sum is that of exp(x - its largest), and PanelJoin joins
// the sums of panels with different largest values. So panels can be computed in any order, and a
// panel's sum needs no second pass over the row when a later panel has a larger value.
//
// 1. BlockMaxima: the largest of each block, compared as integers, which the compiler vectorizes
//    and floats would not be (because of NaN). An invalid block (NaN, infinity) gives infinity.
// 2. SumPanel: terms are added in kLanes lanes of f32, and blocks of kTerms terms in f64; the order
//    of additions is fixed, so that a row has the same bits in any batch.
// 3. SumPicked: the same sum for a list of tokens of the panel, with the same bits as if all others
//    were -infinity.
//
// Term is exp for values of at most 0, and 0 for tiny ones, which avoids slow subnormal numbers.
#include "ops/kernels/panel_scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/kernels/math.h"

namespace beamwright::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Terms that are added in lanes of f32; such blocks are added in f64.
constexpr int64_t kTerms = 256;

// The last few values of a row, and -infinity in the other lanes, which changes no largest value
// and no sum of exponentials: whole vectors instead of one by one.
BW_ALWAYS_INLINE inline void FillUp(const float* x, int64_t count, float (&rest)[kLanes]) {
  for (int64_t lane = 0; lane < int64_t{kLanes}; ++lane) {
    rest[lane] = lane < count ? x[lane] : -kInfinity;
  }
}

// exp(x) for x <= 0, with 0 for what would be below the smallest normal number: next to the panel's
// largest term, which is 1, that changes no sum, and it needs one factor where Exp takes two. Where
// it is 0 nothing is multiplied down to it: a product that underflows takes a processor a hundred
// times as long, and one token that is barred would do that to a vector of sixteen.
BW_ALWAYS_INLINE inline float Term(float x) {
  const bool is_zero = x < -87.0f;
  const math_internal::ExpParts parts = math_internal::SplitExp(is_zero ? 0.0f : x);
  const float scale = std::bit_cast<float>((static_cast<uint32_t>(parts.n) + 127u) << 23);
  return is_zero ? 0.0f : FusedMultiplyAdd(scale, parts.p, scale);
}

// Integers that are ordered as floats are, -0 below 0; and back.
BW_ALWAYS_INLINE inline int32_t Ordered(int32_t bits) {
  return bits ^ (bits >> 31 & kMagnitudeBits);
}

// Of integers, since the compiler computes their largest in vectors; of floats it would have to
// keep the order in which NaNs are met.
BW_ALWAYS_INLINE inline float BlockMax(const float* x, int64_t count) {
  int32_t largest = std::numeric_limits<int32_t>::min();
  int32_t largest_magnitude = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<int32_t>(x[i]);
    const int32_t ordered = Ordered(bits);
    const int32_t magnitude = bits & kMagnitudeBits;
    largest = ordered > largest ? ordered : largest;
    largest_magnitude = magnitude > largest_magnitude ? magnitude : largest_magnitude;
  }
  const bool is_bad = largest_magnitude > kInfinityBits || largest >= kInfinityBits;
  return is_bad ? kInfinity : std::bit_cast<float>(Ordered(largest));
}

}  // namespace

void BlockMaxima(absl::Span<const float> values, float* maxima) {
  const float* const x = values.data();
  const auto count = static_cast<int64_t>(values.size());
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (int64_t first = 0; first < count; first += kScanBlock) {
      maxima[first / kScanBlock] = BlockMax(x + first, std::min(kScanBlock, count - first));
    }
  });
}

PanelSum SumPanel(absl::Span<const float> values, float largest) {
  PanelSum panel{largest, 0};
  if (largest == -kInfinity) {
    return panel;
  }
  const float* const x = values.data();
  const auto count = static_cast<int64_t>(values.size());
  double sum = 0;
  Vectorized([=, &sum]() BW_ALWAYS_INLINE {
    for (int64_t first = 0; first < count; first += kTerms) {
      const float* const block = x + first;
      const int64_t terms = std::min(kTerms, count - first);
      float lanes[kLanes] = {};
      int64_t i = 0;
      for (; i + kLanes <= terms; i += kLanes) {
        for (int lane = 0; lane < kLanes; ++lane) {
          lanes[lane] += Term(block[i + lane] - largest);
        }
      }
      if (i < terms) {
        float rest[kLanes];
        FillUp(block + i, terms - i, rest);
        for (int lane = 0; lane < kLanes; ++lane) {
          lanes[lane] += Term(rest[lane] - largest);
        }
      }
      sum += AddLanes(lanes);
    }
  });
  panel.sum = sum;
  return panel;
}

PanelSum SumPicked(absl::Span<const int32_t> tokens, absl::Span<const float> values,
                   float largest) {
  PanelSum panel{largest, 0};
  if (largest == -kInfinity) {
    return panel;
  }
  float terms[kScanPanel];
  const float* const x = values.data();
  const size_t count = values.size();
  float* const to = terms;
  // Of a panel a list has some sixteen tokens: a rest element by element would be half of them.
  Vectorized([=]() BW_ALWAYS_INLINE {
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        to[i + static_cast<size_t>(lane)] = Term(x[i + static_cast<size_t>(lane)] - largest);
      }
    }
    if (i < count) {
      float rest[kLanes];
      FillUp(x + i, static_cast<int64_t>(count - i), rest);
      for (float& one : rest) {
        one = Term(one - largest);
      }
      std::copy_n(rest, count - i, to + i);
    }
  });
  // What is between two tokens would add 0 to its lane.
  const int32_t* const at = tokens.data();
  double sum = 0;
  Vectorized([=, &sum]() BW_ALWAYS_INLINE {
    for (size_t i = 0; i < count;) {
      const int64_t block = at[i] / kTerms;
      if (i + 1 == count || at[i + 1] / kTerms != block) {
        sum += to[i++];  // the only one of its block
        continue;
      }
      float lanes[kLanes] = {};
      for (; i < count && at[i] / kTerms == block; ++i) {
        lanes[at[i] % kLanes] += to[i];
      }
      sum += AddLanes(lanes);
    }
  });
  panel.sum = sum;
  return panel;
}

void PanelJoin::Add(const PanelSum& panel) {
  const double largest = panel.largest;
  if (panel.largest == -kInfinity) {
    return;
  }
  // Of equal ones exp(0) is 1: a row of one panel is that panel's sum.
  if (largest > largest_) {
    sum_ = sum_ * std::exp(largest_ - largest) + panel.sum;
    largest_ = largest;
  } else {
    sum_ += panel.sum * std::exp(largest - largest_);
  }
}

float PanelJoin::LogSumExp() const {
  return sum_ == 0 ? -kInfinity : static_cast<float>(largest_ + std::log(sum_));
}

float LogSumExp(absl::Span<const float> values, absl::Span<const float> maxima) {
  PanelJoin join;
  for (size_t first = 0; first < values.size(); first += kScanPanel) {
    const absl::Span<const float> blocks =
        maxima.subspan(first / kScanBlock, static_cast<size_t>(kBlocksPerPanel));
    join.Add(SumPanel(values.subspan(first, kScanPanel),
                      *std::max_element(blocks.begin(), blocks.end())));
  }
  return join.LogSumExp();
}

float LogSumExp(absl::Span<const float> values) {
  PanelJoin join;
  for (size_t first = 0; first < values.size(); first += kScanPanel) {
    const absl::Span<const float> panel = values.subspan(first, kScanPanel);
    join.Add(SumPanel(panel, *std::max_element(panel.begin(), panel.end())));
  }
  return join.LogSumExp();
}

}  // namespace beamwright::ops
