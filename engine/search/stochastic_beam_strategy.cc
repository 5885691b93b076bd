#include "engine/search/stochastic_beam_strategy.h"

#include <algorithm>
#include <cmath>

namespace beamwright::search {
namespace {

// Kool et al. 2019, appendix B.3: noise of a child, given that the largest of all children's is
// `largest`, moved so that the largest becomes the parent's.
double ConditionedNoise(double parent, double largest, double own) {
  const double difference = own - largest;
  if (difference == 0) {
    return parent;
  }
  const double v = parent - own + std::log1p(-std::exp(difference));
  return parent - std::max(0.0, v) - std::log1p(std::exp(-std::abs(v)));
}

}  // namespace

void StochasticBeamStrategy::Prepare(const Step& step, absl::Span<RowRules> rules) const {
  for (size_t r = 0; r < rules.size(); ++r) {
    RowDraw& draw = rules[r].draw;
    draw.kind = DrawKind::kGumbel;
    draw.seed = step.options().sampling.seed;
    draw.position = static_cast<uint32_t>(step.num_generated());
    draw.stream = static_cast<uint32_t>(r);
  }
}

absl::Status StochasticBeamStrategy::Choose(Step& step, Choice& choice) {
  step.CollectPairs(-1, pairs_);
  for (Pair& pair : pairs_) {
    // A row's first candidate has the largest noisy log-probability of all its tokens.
    const auto parent = static_cast<size_t>(pair.parent);
    const LiveRow& row = step.rows()[parent];
    const float largest = step.candidates()[parent].rank_scores[0];
    pair.rank = ConditionedNoise(row.rank, row.sum + static_cast<double>(largest),
                                 row.sum + static_cast<double>(pair.rank_score));
  }
  std::sort(pairs_.begin(), pairs_.end(), RanksBefore);
  TakeSorted(step, step.options().beam_size, 0, pairs_, choice);
  return absl::OkStatus();
}

}  // namespace beamwright::search
