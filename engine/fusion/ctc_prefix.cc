// Scores beginnings of texts by CTC, for joint decoding with attention (Watanabe et al. 2017): the
// probability that the frames spell the row's tokens followed by anything.
//
// 1. A row keeps, for each number of frames t, the log-probability that the first t frames are its
//    tokens, ending in the last token (ends_in_token) or in a blank (ends_in_blank).
// 2. Extend computes them for one more token. The token may start at frame t after all paths of the
//    parent; if it equals the parent's last token only after those that end in a blank, since
//    otherwise CTC would read both as one.
// 3. Score sums over frames for all tokens at once: paths before frame t times the token's
//    probability there. It divides by the row's own prefix probability, so that scores are
//    conditional. End tokens get the probability of exactly the row's text.
#include "engine/fusion/ctc_prefix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ops/base/vector_isa.h"

namespace beamwright::fusion {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double LogAdd(double a, double b) {
  if (a < b) {
    std::swap(a, b);
  }
  return b == kNever ? a : a + std::log1p(std::exp(b - a));
}

}  // namespace

CtcPrefixScorer::CtcPrefixScorer(CtcFrames frames, std::vector<int32_t> end_tokens)
    : frames_(std::move(frames)), end_tokens_(std::move(end_tokens)), rows_(1), scratch_(1) {
  const size_t num_frames = frames_.num_frames();
  Row& empty = rows_[0];
  empty.ends_in_token.assign(num_frames + 1, kNever);
  empty.ends_in_blank.assign(num_frames + 1, 0);
  for (size_t t = 1; t <= num_frames; ++t) {
    empty.ends_in_blank[t] =
        empty.ends_in_blank[t - 1] + std::log(static_cast<double>(Frame(t - 1)[frames_.blank]));
  }
}

bool CtcPrefixScorer::HasColumn(int32_t token) const {
  return token < frames_.num_columns && token != frames_.blank;
}

void CtcPrefixScorer::Extend(const Row& parent, int32_t token, Row& child) const {
  const size_t num_frames = frames_.num_frames();
  child.ends_in_token.assign(num_frames + 1, kNever);
  child.ends_in_blank.assign(num_frames + 1, kNever);
  child.prefix = kNever;
  child.last = token;
  if (!HasColumn(token)) {
    return;
  }
  for (size_t t = 1; t <= num_frames; ++t) {
    const double log_prob = std::log(static_cast<double>(Frame(t - 1)[token]));
    const double blank = std::log(static_cast<double>(Frame(t - 1)[frames_.blank]));
    const double starts = token == parent.last
                              ? parent.ends_in_blank[t - 1]
                              : LogAdd(parent.ends_in_blank[t - 1], parent.ends_in_token[t - 1]);
    child.prefix = LogAdd(child.prefix, starts + log_prob);
    child.ends_in_token[t] = LogAdd(child.ends_in_token[t - 1], starts) + log_prob;
    child.ends_in_blank[t] = LogAdd(child.ends_in_blank[t - 1], child.ends_in_token[t - 1]) + blank;
  }
}

void CtcPrefixScorer::Advance(absl::Span<const int32_t> parents, absl::Span<const int32_t> tokens) {
  next_rows_.resize(std::max(next_rows_.size(), parents.size()));
  for (size_t row = 0; row < parents.size(); ++row) {
    Extend(rows_[static_cast<size_t>(parents[row])], tokens[row], next_rows_[row]);
  }
  rows_.swap(next_rows_);
  scratch_.resize(std::max(scratch_.size(), parents.size()));
}

void CtcPrefixScorer::Score(int row, absl::Span<float> log_probs) {
  const Row& own = rows_[static_cast<size_t>(row)];
  const size_t num_frames = frames_.num_frames();
  const size_t num_columns = static_cast<size_t>(frames_.num_columns);
  std::vector<double>& sums = scratch_[static_cast<size_t>(row)].sums;
  sums.assign(num_columns, 0);
  double largest = kNever;
  for (size_t t = 0; t < num_frames; ++t) {
    largest = std::max({largest, own.ends_in_blank[t], own.ends_in_token[t]});
  }
  double again = 0;  // the sum of the row's last token, which must have a blank before it
  for (size_t t = 0; t < num_frames && largest > kNever; ++t) {
    const double blank = std::exp(own.ends_in_blank[t] - largest);
    const double both = blank + std::exp(own.ends_in_token[t] - largest);
    if (both == 0) {
      continue;
    }
    const float* const probs = Frame(t);
    double* const out = sums.data();
    Vectorized([=]() BW_ALWAYS_INLINE {
      for (size_t column = 0; column < num_columns; ++column) {
        out[column] += both * static_cast<double>(probs[column]);
      }
    });
    again +=
        HasColumn(own.last) && own.last >= 0 ? blank * static_cast<double>(probs[own.last]) : 0;
  }
  const auto conditional = [&](double log_prob) {
    return own.prefix == kNever || log_prob == kNever
               ? -std::numeric_limits<float>::infinity()
               : static_cast<float>(std::min(log_prob - own.prefix, 0.0));
  };
  std::fill(log_probs.begin(), log_probs.end(), -std::numeric_limits<float>::infinity());
  for (size_t token = 0; token < std::min(log_probs.size(), num_columns); ++token) {
    const auto id = static_cast<int32_t>(token);
    if (HasColumn(id)) {
      log_probs[token] = conditional(std::log(id == own.last ? again : sums[token]) + largest);
    }
  }
  const double whole = LogAdd(own.ends_in_blank.back(), own.ends_in_token.back());
  for (const int32_t token : end_tokens_) {
    log_probs[static_cast<size_t>(token)] = conditional(whole);
  }
}

}  // namespace beamwright::fusion
