// Scores of hypotheses: the sum of log-probabilities and rewards, divided by a norm of the length,
// less the coverage penalty. Bound is the best score that a row can still reach, which the stop
// rules compare with the list: without rewards its sum divided by the largest norm that is left,
// with rewards the maximum over all lengths, each with the most that rewards may add until then.
//
// Coverage adds up each source position's attention over the steps (AddStep); Penalty is low where
// positions got less than 1 in all.
#include "engine/search/score.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/base/status.h"

namespace beamwright::search {
namespace {

// Far above what rounding does to sums of kMaxLength rewards, far below what distinguishes scores.
constexpr double kHair = 1e-9;

}  // namespace

double LengthNorm(LengthPenalty penalty, double alpha, double n) {
  return penalty == LengthPenalty::kNone
             ? 1
             : std::pow(penalty == LengthPenalty::kPow ? n : (5 + n) / 6, alpha);
}

ScoreTable::ScoreTable(const SearchOptions& options, const Gains& gains)
    : gains_(gains),
      word_reward_(options.word_reward),
      offset_(options.constraints.score_prefix ? static_cast<int>(options.constraints.prefix.size())
                                               : 0),
      max_length_(options.max_length),
      min_length_(options.processors.min_length) {
  if (options.length_penalty == LengthPenalty::kNone) {
    return;
  }
  const size_t size = static_cast<size_t>(offset_) + static_cast<size_t>(max_length_) + 1;
  norms_.assign(size, 1);
  for (size_t length = 1; length < size; ++length) {
    norms_[length] = LengthNorm(options.length_penalty, options.alpha, static_cast<double>(length));
  }
  largest_from_ = norms_;
  for (size_t length = size - 1; length-- > 1;) {
    largest_from_[length] = std::max(largest_from_[length], largest_from_[length + 1]);
  }
}

double ScoreTable::Bound(double total, int length) const {
  // A hypothesis that reaches max_length may be cut there however short it should not be.
  const int first = std::min(std::max(length, min_length_) + 1, max_length_);
  if (word_reward_ == 0 && !gains_.any) {
    return largest_from_.empty() ? total
                                 : total / largest_from_[static_cast<size_t>(first + offset_)];
  }
  double bound = -std::numeric_limits<double>::infinity();
  for (int n = first; n <= max_length_; ++n) {
    bound = std::max(bound, ScoreAt(total + gains_.most * (n - length), n + offset_));
  }
  return gains_.any ? bound + kHair * (1 + std::abs(bound)) : bound;
}

// sums_ of a row: those of its parent, plus this step's attention.
absl::Status Coverage::AddStep(absl::Span<const int32_t> parents,
                               absl::Span<const RowCandidates> rows) {
  if (!wanted()) {
    return absl::OkStatus();
  }
  const bool is_first = sums_.empty();
  if (is_first) {
    num_positions_ = rows.empty() ? 0 : rows[0].attention.size();
  }
  next_.resize(rows.size() * num_positions_);
  for (size_t row = 0; row < rows.size(); ++row) {
    const absl::Span<const float> attention = rows[row].attention;
    if (attention.size() != num_positions_ || attention.empty()) {
      return Invalid("row ", row, " has attention over ", attention.size(),
                     " source positions, must be over ", std::max<size_t>(num_positions_, 1));
    }
    for (size_t i = 0; i < num_positions_; ++i) {
      if (!(attention[i] >= 0) || !std::isfinite(attention[i])) {
        return Invalid("row ", row, ": the attention to source position ", i, " is ", attention[i],
                       ", must be a number of at least 0");
      }
      const double before =
          is_first ? 0 : sums_[static_cast<size_t>(parents[row]) * num_positions_ + i];
      next_[row * num_positions_ + i] = before + static_cast<double>(attention[i]);
    }
  }
  sums_.swap(next_);
  return absl::OkStatus();
}

double Coverage::Penalty(int row) const {
  if (!wanted()) {
    return 0;
  }
  double sum = 0;
  for (size_t i = 0; i < num_positions_; ++i) {
    const double got = sums_[static_cast<size_t>(row) * num_positions_ + i];
    sum += std::log(std::clamp(got, kLeastCoverage, 1.0));
  }
  return weight_ * sum;
}

}  // namespace beamwright::search
