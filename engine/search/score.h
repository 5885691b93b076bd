// What hypotheses are compared by: scores of sums of log-probabilities with the bound that stops a
// search, and the penalty of coverage.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_SCORE_H_
#define BEAMWRIGHT_ENGINE_SEARCH_SCORE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/options.h"
#include "engine/search/row_search.h"

namespace beamwright::search {

// From sums of log-probabilities to the scores that hypotheses are compared by, and the bound that
// lets a search stop early without changing its answer. Both read one table of norms, so that the
// bound holds in floating point and not only on paper (docs/decoding.md, 'Scores').

// What a hypothesis can still gain: see Processor.
struct Gains {
  bool any = false;  // something is added to log-probabilities
  double most = 0;   // a token's log-probability and all that is added are at most this; >= 0
};

// What the score of n generated tokens is divided by, n >= 1.
double LengthNorm(LengthPenalty penalty, double alpha, double n);

// Immutable once made; 16 bytes per token of max_length, nothing for LengthPenalty::kNone.
class ScoreTable {
 public:
  // The options must be valid.
  explicit ScoreTable(const SearchOptions& options, const Gains& gains = {});

  // The score of a hypothesis of `length` generated tokens, 1 to max_length, whose sum and rewards
  // add up to `total`: (total + word_reward * n) / norm(n), n = length, and the prefix's where it
  // is scored.
  double Normalise(double total, int length) const { return ScoreAt(total, length + offset_); }

  // No hypothesis that continues one of `length` generated tokens, 0 to max_length - 1, and at most
  // this total can score above it. Without rewards the total must not be above 0.
  //
  // Why: a log-probability is at most 0, so without rewards the total only falls, and rounded
  // addition is monotone. The continuation ends with n tokens, length < n <= max_length, and scores
  // at most (total + word_reward * n) / norm(n), because rounded division by the same number is
  // monotone too. Where there is no word reward, that is at most total / (the largest of these
  // norms), since total <= 0; else the largest is found by trying all n. With rewards a total grows
  // by at most gains.most a token; sums of several rewards may round otherwise than one product, so
  // that a hair is added.
  double Bound(double total, int length) const;

 private:
  double ScoreAt(double total, int n) const {
    const double numerator = word_reward_ == 0 ? total : total + word_reward_ * n;
    return norms_.empty() ? numerator : numerator / norms_[static_cast<size_t>(n)];
  }

  Gains gains_;
  double word_reward_;
  int offset_;      // length of a scored prefix
  int max_length_;  // of generated tokens
  int min_length_;
  std::vector<double> norms_;         // [offset + max_length + 1]; index 0 is not used
  std::vector<double> largest_from_;  // at each length: the largest norm from there on
};

// Coverage: how much attention each source position has got, for each row of a search, and the
// penalty for what got too little (docs/decoding.md, 'Coverage').

// A position that got less counts as if it had got this much, so that scores stay finite.
inline constexpr double kLeastCoverage = 1e-10;

// Movable. One thread at a time. Steps allocate only at first.
class Coverage {
 public:
  // weight: beta of the penalty, finite and >= 0; 0: nothing is kept and every penalty is 0.
  explicit Coverage(double weight) : weight_(weight) {}

  bool wanted() const { return weight_ > 0; }

  // Row i continues row parents[i] of the step before (none before the first) and pays rows[i]'s
  // attention. Sums are in double precision, in the order of the steps. InvalidArgument, naming the
  // row, if the weights are not numbers of at least 0 or their number is another than before.
  absl::Status AddStep(absl::Span<const int32_t> parents, absl::Span<const RowCandidates> rows);

  // Of a row of the last step: weight * sum over positions of log(min(what it got, 1)), in the
  // order of the positions; 0 or less.
  double Penalty(int row) const;

 private:
  double weight_;
  size_t num_positions_ = 0;
  std::vector<double> sums_;  // [row][position]
  std::vector<double> next_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_SCORE_H_
