#include "engine/search/constraint_processors.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace beamwright::search {

Shortlist::Shortlist(std::vector<int32_t> tokens, const std::vector<int32_t>& end_tokens)
    : tokens_(std::move(tokens)) {
  tokens_.insert(tokens_.end(), end_tokens.begin(), end_tokens.end());
  std::sort(tokens_.begin(), tokens_.end());
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end()), tokens_.end());
}

SoftPrefix::SoftPrefix(TokenSequence tokens, double weight, int skip)
    : tokens_(std::move(tokens)), weight_(weight), skip_(skip), offset_(std::log1p(-weight)) {}

int64_t SoftPrefix::Next(int64_t state, int32_t token) const {
  if (state < 0 || (IsOn(state) && Preferred(state) == token)) {
    return state + 1;
  }
  return kLeft;
}

// All ranks of the row lack log(1 - weight) here, which RankOffset adds.
void SoftPrefix::Apply(const RowView& row, RuleBuffer& rules) const {
  if (IsOn(row.state)) {
    rules.AddMass(Preferred(row.state), static_cast<float>(weight_ / (1 - weight_)));
  }
}

double SoftPrefix::Reward(int64_t state, int32_t token, float log_prob) const {
  if (!IsOn(state)) {
    return 0;
  }
  if (Preferred(state) != token) {
    return offset_;
  }
  const double p = std::exp(static_cast<double>(log_prob));
  return std::log((1 - weight_) * p + weight_) - static_cast<double>(log_prob);
}

}  // namespace beamwright::search
