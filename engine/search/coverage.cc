#include "engine/search/coverage.h"

#include <algorithm>
#include <cmath>

#include "ops/base/status.h"

namespace beamwright::search {

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
