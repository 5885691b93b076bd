#include "server/search/alternatives_strategy.h"

#include <cmath>

namespace beamwright::search {

int AlternativesStrategy::candidates_per_row(const SearchOptions& options) const {
  return options.constraints.num_alternatives + static_cast<int>(options.end_tokens.size());
}

absl::Status AlternativesStrategy::Choose(Step& step, Choice& choice) {
  const ConstraintOptions& constraints = step.options().constraints;
  const RowCandidates& row = step.candidates()[0];
  const double least = std::log(constraints.alternative_min_prob);
  int left = constraints.num_alternatives;
  const auto note = [&](const Pair& pair, Fate fate) {
    if (step.trace() != nullptr) {
      step.trace()->Note(pair, 0, fate, {});
    }
  };
  size_t i = 0;
  for (; i < row.tokens.size() && left > 0; ++i) {
    if (!step.IsOpen(0, i)) {
      continue;
    }
    Pair pair = step.MakePair(0, i);
    if (step.IsEnd(row.tokens[i])) {
      note(pair, Fate::kEndOfAlternative);
      continue;
    }
    --left;
    if (static_cast<double>(LogProb(row, i)) < least) {
      note(pair, Fate::kAlternativeMinProb);
    } else {
      pair.group = static_cast<int32_t>(choice.living.size());
      note(pair, Fate::kKept);
      pair.reward += step.pipeline().Reward(0, pair.token, pair.log_prob);
      choice.living.push_back(pair);
    }
  }
  for (; step.trace() != nullptr && i < row.tokens.size(); ++i) {
    if (step.IsOpen(0, i)) {
      note(step.MakePair(0, i), step.IsEnd(row.tokens[i]) ? Fate::kEndOfAlternative : Fate::kBeam);
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::search
