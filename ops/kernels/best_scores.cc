// Keeps the best scores of a row, block by block: KeepBest takes a block of values and a sorted
// list of at most `most`, and leaves the best of both in the list.
//
// 1. Candidates are picked without branches. A full list takes values above its last one. For one
//    that is not full, BoundOf finds a bound from the largest values of the lanes: at least `most`
//    values reach it.
// 2. Few candidates are inserted one by one (Insert). Some more are ranked with the list at once
//    (Merge): the place of each is the number of higher keys, which vectors count (Rank).
//
// KeyOf makes one integer of value and token that orders as they do: the higher value first, and of
// equal values the lower token.
#include "ops/kernels/best_scores.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "ops/base/vector_isa.h"
#include "ops/kernels/math.h"
#include "ops/kernels/panel_scan.h"

namespace beamwright::ops {
namespace {

constexpr size_t kNumLanes = kLanes;
// Scores that are ranked at once: a list for a beam of 10 and what enters it.
constexpr size_t kMostRanked = 32;
// So few are inserted one by one.
constexpr size_t kFew = 2;

// A score that is not above the `most`-th best of the block, and often near it: of the largest
// values of its lanes, which are scores, the `most`-th. Lowest() if the block has too few.
BW_ALWAYS_INLINE inline float BoundOf(const float* values, size_t count, size_t most) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  if (most > kNumLanes || count < kNumLanes) {
    return kLowest;
  }
  float lanes[kNumLanes];
  std::copy_n(values, kNumLanes, lanes);
  for (size_t i = kNumLanes; i + kNumLanes <= count; i += kNumLanes) {
    for (size_t lane = 0; lane < kNumLanes; ++lane) {
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    }
  }
  int32_t higher[kNumLanes] = {};
  for (size_t other = 0; other < kNumLanes; ++other) {
    for (size_t lane = 0; lane < kNumLanes; ++lane) {
      higher[lane] += lanes[other] > lanes[lane] ? 1 : 0;
    }
  }
  float bound = std::numeric_limits<float>::infinity();
  for (size_t lane = 0; lane < kNumLanes; ++lane) {
    const bool is_among = higher[lane] < static_cast<int32_t>(most);
    bound = is_among && lanes[lane] < bound ? lanes[lane] : bound;
  }
  return bound > kLowest ? bound : kLowest;
}

// Larger for the better score: ordered like the value's bits, then the lower token.
BW_ALWAYS_INLINE inline int64_t KeyOf(const TokenScore& score) {
  const auto bits = std::bit_cast<int32_t>(score.value);
  const int32_t ordered = bits < 0 ? bits ^ std::numeric_limits<int32_t>::max() : bits;
  return int64_t{ordered} * (int64_t{1} << 32) + (int64_t{0xffffffff} - score.token);
}

// ranks[i] = how many of `count` keys are higher. kWidth >= count; keys has kWidth elements.
template <size_t kWidth>
BW_ALWAYS_INLINE inline void Rank(const int64_t* keys, size_t count, int64_t* ranks) {
  int64_t higher[kWidth] = {};
  for (size_t other = 0; other < count; ++other) {
    const int64_t key = keys[other];
    for (size_t i = 0; i < kWidth; ++i) {
      higher[i] += key > keys[i] ? 1 : 0;
    }
  }
  std::copy_n(higher, kWidth, ranks);
}

void Insert(const TokenScore& score, size_t most, std::vector<TokenScore>& best) {
  if (best.size() == most) {
    if (!(score.value > best.back().value)) {
      return;
    }
    best.pop_back();
  }
  const auto after =
      std::upper_bound(best.begin(), best.end(), score,
                       [](const TokenScore& a, const TokenScore& b) { return a.value > b.value; });
  best.insert(after, score);
}

// Puts best and `count` scores behind it in order. Together they are at most kMostRanked.
void Merge(const TokenScore* scores, size_t count, size_t most, std::vector<TokenScore>& best) {
  TokenScore all[kMostRanked];
  const size_t old = best.size();
  std::copy_n(best.data(), old, all);
  std::copy_n(scores, count, all + old);
  count += old;
  int64_t keys[kMostRanked] = {};
  int64_t ranks[kMostRanked];
  const TokenScore* const from = all;
  int64_t* const to_keys = keys;
  int64_t* const to_ranks = ranks;
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (size_t i = 0; i < count; ++i) {
      to_keys[i] = KeyOf(from[i]);
    }
    if (count <= kMostRanked / 2) {
      Rank<kMostRanked / 2>(to_keys, count, to_ranks);
    } else {
      Rank<kMostRanked>(to_keys, count, to_ranks);
    }
  });
  TokenScore ordered[kMostRanked];
  for (size_t i = 0; i < count; ++i) {
    ordered[ranks[i]] = all[i];
  }
  best.assign(ordered, ordered + std::min(count, most));
}

}  // namespace

void KeepBest(absl::Span<const float> values, int32_t first, size_t most,
              std::vector<TokenScore>& best) {
  if (most == 0) {
    return;
  }
  TokenScore found[kScanBlock];
  size_t count = 0;
  // Of equal values the first stays, so that a full list takes larger ones alone.
  if (best.size() == most) {
    const float last = best.back().value;
    for (size_t i = 0; i < values.size(); ++i) {
      found[count] = {values[i], first + static_cast<int32_t>(i)};
      count += values[i] > last ? 1 : 0;
    }
  } else {
    const float* const x = values.data();
    const size_t size = values.size();
    float bound = 0;
    Vectorized([=, &bound]() BW_ALWAYS_INLINE { bound = BoundOf(x, size, most); });
    for (size_t i = 0; i < values.size(); ++i) {
      found[count] = {values[i], first + static_cast<int32_t>(i)};
      count += values[i] >= bound ? 1 : 0;
    }
  }
  if (count > kFew && best.size() + count <= kMostRanked) {
    return Merge(found, count, most, best);
  }
  for (size_t i = 0; i < count; ++i) {
    Insert(found[i], most, best);
  }
}

}  // namespace beamwright::ops
