#include "engine/search/step.h"

namespace beamwright::search {

bool RanksBefore(const Pair& a, const Pair& b) {
  if (a.rank != b.rank) {
    return a.rank > b.rank;
  }
  if (a.parent != b.parent) {
    return a.parent < b.parent;
  }
  return a.rank_score != b.rank_score ? a.rank_score > b.rank_score : a.token < b.token;
}

void Step::SetCandidates(absl::Span<const RowCandidates> candidates) {
  candidates_ = candidates;
  for (size_t r = 0; r < candidates.size(); ++r) {
    LiveRow& row = rows_[r];
    row.base = row.sum + row.reward + row.fused;
    if (pipeline_.gives_rewards()) {
      row.base += pipeline_.RankOffset(static_cast<int>(r));
    }
    row.best_other = kImpossible;
    for (size_t i = 0; options_.end_threshold != 0 && i < candidates[r].tokens.size(); ++i) {
      if (!IsEnd(candidates[r].tokens[i])) {
        row.best_other = std::max(row.best_other, LogProb(candidates[r], i));
      }
    }
  }
}

void Step::CollectPairs(int group, std::vector<Pair>& pairs) const {
  pairs.clear();
  for (size_t r = 0; r < candidates_.size(); ++r) {
    const LiveRow& row = rows_[r];
    if (group >= 0 && row.group >= 0 && (row.group != group || row.done)) {
      continue;
    }
    for (size_t i = 0; i < candidates_[r].tokens.size(); ++i) {
      if (IsOpen(r, i)) {
        pairs.push_back(MakePair(r, i));
      }
    }
  }
}

void TakeSorted(const Step& step, int size, int group, const std::vector<Pair>& pairs,
                Choice& choice) {
  auto next = pairs.begin();
  TakeBest(
      step, size, group,
      [&](Pair& pair) {
        if (next == pairs.end()) {
          return false;
        }
        pair = *next++;
        return true;
      },
      choice);
}

}  // namespace beamwright::search
