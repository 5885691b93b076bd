#include "server/search/score.h"

#include <algorithm>
#include <cmath>

namespace beamwright::search {

ScoreTable::ScoreTable(const SearchOptions& options) {
  if (options.length_penalty == LengthPenalty::kNone) {
    return;
  }
  const size_t size = static_cast<size_t>(options.max_length) + 1;
  norms_.assign(size, 1);
  for (size_t length = 1; length < size; ++length) {
    const double n = static_cast<double>(length);
    norms_[length] =
        std::pow(options.length_penalty == LengthPenalty::kPow ? n : (5 + n) / 6, options.alpha);
  }
  largest_from_ = norms_;
  for (size_t length = size - 1; length-- > 1;) {
    largest_from_[length] = std::max(largest_from_[length], largest_from_[length + 1]);
  }
}

}  // namespace beamwright::search
