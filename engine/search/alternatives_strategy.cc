#include "engine/search/alternatives_strategy.h"

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
  size_t i = 0;
  for (; i < row.tokens.size() && left > 0; ++i) {
    if (!step.IsOpen(0, i)) {
      continue;
    }
    Pair pair = step.MakePair(0, i);
    if (step.IsEnd(row.tokens[i])) {
      step.Note(pair, 0, Fate::kEndOfAlternative);
      continue;
    }
    --left;
    if (static_cast<double>(LogProb(row, i)) < least) {
      step.Note(pair, 0, Fate::kAlternativeMinProb);
    } else {
      pair.group = static_cast<int32_t>(choice.living.size());
      step.Note(pair, 0, Fate::kKept);
      pair.reward += step.pipeline().Reward(0, pair.token, pair.log_prob);
      choice.living.push_back(pair);
    }
  }
  for (; step.trace() != nullptr && i < row.tokens.size(); ++i) {
    if (step.IsOpen(0, i)) {
      step.Note(step.MakePair(0, i), 0,
                step.IsEnd(row.tokens[i]) ? Fate::kEndOfAlternative : Fate::kBeam);
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::search
