// From sums of log-probabilities to the scores that hypotheses are compared by, and the bound that
// lets a search stop early without changing its answer. Both read one table of norms, so that the
// bound holds in floating point and not only on paper (docs/decoding.md, 'Scores').
#ifndef BEAMWRIGHT_SERVER_SEARCH_SCORE_H_
#define BEAMWRIGHT_SERVER_SEARCH_SCORE_H_

#include <vector>

#include "server/search/options.h"

namespace beamwright::search {

// Immutable once made; 16 bytes per token of max_length, nothing for LengthPenalty::kNone.
class ScoreTable {
 public:
  // The options must be valid.
  explicit ScoreTable(const SearchOptions& options);

  // The score of a hypothesis of `length` tokens, 1 to max_length: sum / norm(length).
  double Normalise(double sum, int length) const {
    return norms_.empty() ? sum : sum / norms_[static_cast<size_t>(length)];
  }

  // No hypothesis that continues one of `length` tokens, 0 to max_length - 1, and at most this sum
  // can score above it. The sum must not be above 0.
  //
  // Why: a log-probability is at most 0, so a sum only falls, and rounded addition is monotone.
  // The continuation ends with n tokens, length < n <= max_length, and scores at most sum / norm(n)
  // <= sum / (the largest of these norms), because rounded division is monotone as well and
  // sum <= 0. The largest is looked up rather than derived from the sign of alpha: norms may round.
  double Bound(double sum, int length) const {
    return largest_from_.empty() ? sum : sum / largest_from_[static_cast<size_t>(length) + 1];
  }

 private:
  std::vector<double> norms_;         // [max_length + 1]; index 0 is not used
  std::vector<double> largest_from_;  // [max_length + 1]: the largest norm from this length on
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_SERVER_SEARCH_SCORE_H_
