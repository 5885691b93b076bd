#include "engine/search/group_strategy.h"

#include <algorithm>

namespace beamwright::search {
namespace {

// Takes off each pair's rank the penalty for each pair chosen so far that has its token.
void Penalise(const std::vector<Pair>& chosen, double penalty, std::vector<Pair>& pairs) {
  for (Pair& pair : pairs) {
    const auto count = std::count_if(chosen.begin(), chosen.end(),
                                     [&](const Pair& other) { return other.token == pair.token; });
    pair.rank -= penalty * static_cast<double>(count);
  }
}

}  // namespace

absl::Status GroupStrategy::Choose(Step& step, Choice& choice) {
  const SearchOptions& options = step.options();
  for (int group = 0; group < num_groups_; ++group) {
    step.CollectPairs(group, pairs_);
    if (options.num_groups > 1) {
      Penalise(choice.living, options.diversity_penalty, pairs_);
    }
    std::sort(pairs_.begin(), pairs_.end(), RanksBefore);
    TakeSorted(step, options.beam_size / num_groups_, group, pairs_, choice);
  }
  return absl::OkStatus();
}

}  // namespace beamwright::search
