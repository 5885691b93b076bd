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

#include "ops/base/status.h"
#include "ops/base/vector_isa.h"
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

namespace {

constexpr float kRounding = 0.01f;

bool Fits(float x, ScoreKind kind) {
  switch (kind) {
    case ScoreKind::kLogits:
      return x < kInfinity;  // NaN compares false
    case ScoreKind::kLogProbs:
      return x <= kRounding;
    case ScoreKind::kProbabilities:
      return x >= 0 && x <= 1 + kRounding;
  }
  return false;
}

}  // namespace

absl::Status ToLogProbs(absl::Span<const float> scores, ScoreKind kind, absl::Span<float> log_probs,
                        float* shift_taken) {
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!Fits(scores[i], kind)) {
      return Invalid("scores[", i, "]: ", scores[i],
                     kind == ScoreKind::kLogits ? " is not a number below infinity"
                     : kind == ScoreKind::kLogProbs
                         ? " is not a log-probability, expected at most 0"
                         : " is not a probability, expected [0, 1]");
    }
  }
  const float shift = kind == ScoreKind::kLogits ? LogSumExp(scores) : 0;
  if (shift_taken != nullptr) {
    *shift_taken = shift;
  }
  const bool is_prob = kind == ScoreKind::kProbabilities;
  const float* const x = scores.data();
  float* const out = log_probs.data();
  const size_t count = scores.size();
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (size_t i = 0; i < count; ++i) {
      const float log_prob = is_prob ? Log(x[i]) : x[i] == -kInfinity ? -kInfinity : x[i] - shift;
      out[i] = log_prob > 0 ? 0 : log_prob;
    }
  });
  return absl::OkStatus();
}

absl::Status MixScores(absl::Span<MixPart> parts, MixKind kind, std::vector<float>& scratch,
                       std::vector<float>& logits) {
  const size_t count = parts.empty() ? 0 : parts[0].scores.size();
  scratch.resize(count);
  logits.assign(count, 0);
  float* const out = logits.data();
  const float* const x = scratch.data();
  for (size_t part = 0; part < parts.size(); ++part) {
    if (parts[part].scores.size() != count) {
      return Invalid("decoder ", part, " gave ", parts[part].scores.size(),
                     " scores, the first one ", count);
    }
    BW_RETURN_IF_ERROR(Annotate(ToLogProbs(parts[part].scores, parts[part].kind,
                                           absl::MakeSpan(scratch), &parts[part].shift),
                                absl::StrCat("decoder ", part)));
    const float weight = parts[part].weight;
    const bool probs = kind == MixKind::kProbs;
    Vectorized([=]() BW_ALWAYS_INLINE {
      for (size_t i = 0; i < count; ++i) {
        out[i] = out[i] + weight * (probs ? Exp(x[i]) : x[i]);
      }
    });
  }
  if (kind == MixKind::kProbs) {
    Vectorized([=]() BW_ALWAYS_INLINE {
      for (size_t i = 0; i < count; ++i) {
        out[i] = Log(out[i]);
      }
    });
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
