#include "engine/search/forced_end_strategy.h"

namespace beamwright::search {

void ForcedEndStrategy::Prepare(const Step& step, absl::Span<RowRules> /*rules*/) const {
  for (LiveRow& row : step.rows()) {
    row.watched = step.options().end_tokens;
  }
}

absl::Status ForcedEndStrategy::Choose(Step& step, Choice& choice) {
  step.ForceEnd();
  step.SetCandidates(watched_.Only(step));
  return chooser_.Choose(step, choice);
}

}  // namespace beamwright::search
