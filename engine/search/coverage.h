// Coverage: how much attention each source position has got, for each row of a search, and the
// penalty for what got too little (docs/decoding.md, 'Coverage').
#ifndef BEAMWRIGHT_ENGINE_SEARCH_COVERAGE_H_
#define BEAMWRIGHT_ENGINE_SEARCH_COVERAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/row_search.h"

namespace beamwright::search {

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

#endif  // BEAMWRIGHT_ENGINE_SEARCH_COVERAGE_H_
