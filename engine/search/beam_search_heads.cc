// The part of BeamSearch that lists, before its end, what the answer may become.
#include <algorithm>

#include "engine/search/beam_search.h"

namespace beamwright::search {

bool BeamSearch::Cut(FinishReason reason) {
  const bool is_random = options_.sampling.kind == Sampling::kRandom;
  std::vector<NBestList> cut;
  for (const List& list : lists_) {
    cut.emplace_back(list.best.capacity(), /*first_slot=*/0);
  }
  bool any = num_finished_ > 0;
  for (size_t row = 0; !done_ && num_generated() > 0 && row < choice_.living.size(); ++row) {
    if (rows_[row].done || !pipeline_.MayBeCut(static_cast<int>(row))) {
      continue;
    }
    any = true;
    const Pair& pair = choice_.living[row];
    const ListEntry entry = MakeEntry(pair, reason);
    const bool is_listed = entry.score >= options_.score_threshold;
    if (trace_ != nullptr) {
      trace_->SetFate(entry.traced, is_listed ? Fate::kNotListed : Fate::kScoreThreshold);
    }
    if (is_listed) {
      const size_t list = lists_.size() == 1 ? 0 : static_cast<size_t>(pair.group);
      NBestList& into = is_random ? lists_[list].best : cut[list];
      into.Enter(pair, entry, static_cast<int>(row), history_);
    }
  }
  if (done_ || !any) {
    return false;
  }
  for (size_t i = 0; i < lists_.size(); ++i) {
    lists_[i].best.Append(cut[i]);
  }
  End();
  return true;
}

bool BeamSearch::MayEnter(const List& list, const LiveRow& row) const {
  // What is cut has other lengths than the bound knows, and is listed otherwise.
  if (!list.best.full() || options_.may_be_cut || num_generated() <= 0 ||
      options_.sampling.kind == Sampling::kRandom) {
    return true;
  }
  const double bound = options_.sampling.kind == Sampling::kWithoutReplacement
                           ? row.rank
                           : scores_.Bound(row.sum + row.reward + row.fused, num_generated());
  return list.best.entries().back().score < bound;
}

void BeamSearch::ListHeads(std::vector<Head>& heads) const {
  heads.clear();
  const bool is_random = options_.sampling.kind == Sampling::kRandom;
  for (const List& list : lists_) {
    for (const ListEntry& entry : list.best.entries()) {
      heads.push_back({entry.slot, entry.length, is_random ? static_cast<int>(-entry.key) : 0,
                       entry.key, false});
    }
  }
  for (size_t row = 0; row < rows_.size(); ++row) {
    const List& list =
        lists_[lists_.size() == 1 ? 0 : static_cast<size_t>(std::max(rows_[row].group, 0))];
    if (history_.num_steps() > 0 && !rows_[row].done && MayEnter(list, rows_[row])) {
      heads.push_back(
          {static_cast<int>(row), history_.num_steps(), is_random ? rows_[row].sample : 0,
           num_generated() > 0 ? MakeEntry(choice_.living[row], FinishReason::kLength).key : 0,
           true});
    }
  }
}

}  // namespace beamwright::search
