#include "engine/search/prefix_strategy.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace beamwright::search {
namespace {

int32_t TokenOf(const Step& step) {
  return step.options().constraints.prefix[static_cast<size_t>(step.number())];
}

absl::Status Barred(absl::string_view who, const Step& step) {
  return absl::FailedPreconditionError(absl::StrCat("target_prefix: ", who, " gives token ",
                                                    TokenOf(step), ", number ", step.number(),
                                                    " of the prefix, probability 0"));
}

}  // namespace

void PrefixStrategy::Prepare(const Step& step, absl::Span<RowRules> /*rules*/) const {
  step.rows()[0].watched.push_back(TokenOf(step));
}

absl::Status PrefixStrategy::Choose(Step& step, Choice& choice) {
  const RowCandidates& candidates = step.candidates()[0];
  const LiveRow& row = step.rows()[0];
  const bool is_scored = step.options().constraints.score_prefix;
  Pair pair;
  pair.token = TokenOf(step);
  pair.log_prob = std::min(candidates.watched[0], 0.0f);
  if (pair.log_prob == kImpossible) {
    return Barred("the model", step);
  }
  pair.sum = is_scored ? row.sum + static_cast<double>(pair.log_prob) : 0;
  pair.reward = row.reward + step.pipeline().Reward(0, pair.token, pair.log_prob);
  pair.fused = row.fused;
  step.AddParts(candidates, pair);
  if (!is_scored) {
    pair.fused = 0;
  } else if (pair.fused == -std::numeric_limits<double>::infinity()) {
    return Barred("fusion", step);
  }
  pair.group = -1;
  if (step.trace() != nullptr) {
    Pair noted = pair;  // nothing ranks it
    noted.rank_score = pair.log_prob;
    noted.rank = row.base + static_cast<double>(pair.log_prob);
    step.Note(noted, 0, Fate::kKept);
  }
  choice.living.push_back(pair);
  return absl::OkStatus();
}

}  // namespace beamwright::search
