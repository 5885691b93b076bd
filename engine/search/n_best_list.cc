#include "engine/search/n_best_list.h"

#include <algorithm>

namespace beamwright::search {

int NBestList::Compare(const Pair& pair, const ListEntry& own, const ListEntry& other,
                       const SlotHistory& history) {
  if (own.key != other.key) {
    return own.key > other.key ? -1 : 1;
  }
  if (own.length != other.length) {
    return own.length < other.length ? -1 : 1;
  }
  // Of equal length: both are about the history's last step.
  const int last = own.length - 1;
  const int order =
      history.ComparePaths(last - 1, pair.parent, history.slot_parent(last, other.slot));
  return order != 0 ? order : pair.token - history.token(last, other.slot);
}

bool NBestList::Enter(const Pair& pair, ListEntry entry, int live_slot, SlotHistory& history) {
  entry.length = history.num_steps();
  const auto place = std::partition_point(
      entries_.begin(), entries_.end(),
      [&](const ListEntry& other) { return Compare(pair, entry, other, history) >= 0; });
  const bool is_full = full();
  if (is_full && place == entries_.end()) {
    return false;
  }
  // Two groups of a search may find the same hypothesis.
  if (place != entries_.begin() && Compare(pair, entry, *(place - 1), history) == 0) {
    return false;
  }
  const auto offset = place - entries_.begin();
  entry.slot = live_slot;
  if (live_slot < 0) {
    entry.slot = is_full ? entries_.back().slot : first_slot_ + static_cast<int>(entries_.size());
    history.Set(entry.slot, pair.parent, pair.token, pair.log_prob, pair.parts);
  }
  if (is_full) {
    entries_.pop_back();
  }
  entries_.insert(entries_.begin() + offset, entry);
  return true;
}

void NBestList::Append(const NBestList& other) {
  for (const ListEntry& entry : other.entries_) {
    if (full()) {
      return;
    }
    entries_.push_back(entry);
  }
}

}  // namespace beamwright::search
