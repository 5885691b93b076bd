// Where a search keeps its tokens (SlotHistory) and its complete hypotheses (NBestList).
//
// A history is a table [steps, slots]: each slot holds a token and the slot of the step before that
// it continues; slots that a step does not use continue themselves. A hypothesis is its last slot
// and its length, so that entering the list copies no tokens. Live rows use the first slots,
// entries of the list those from first_slot_ on: an entry that falls out of the list leaves its
// slot to the one that takes its place.
//
// Entries are sorted by score, then the shorter first, then by their tokens from the beginning
// (ComparePaths follows both paths back and remembers the earliest difference). Equal hypotheses
// enter once.
#include "engine/search/n_best_list.h"

#include <algorithm>
#include <numeric>

#include "ops/base/check.h"

namespace beamwright::search {
namespace {

constexpr int kFirstReservedSteps = 32;

}  // namespace

SlotHistory::SlotHistory(int num_slots, int max_steps, int num_parts)
    : num_slots_(num_slots), max_steps_(max_steps), num_parts_(num_parts) {}

void SlotHistory::AddStep() {
  BW_DCHECK(num_steps_ < max_steps_);
  const size_t size = Index(num_steps_ + 1, 0);
  if (size > slot_ids_.capacity()) {
    // Doubles, but never beyond what max_steps_ takes: that is what the request was priced at.
    const size_t reserved =
        Index(std::min(max_steps_, std::max(kFirstReservedSteps, 2 * num_steps_)), 0);
    slot_ids_.reserve(reserved);
    slot_parents_.reserve(reserved);
    tokens_.reserve(reserved);
    log_probs_.reserve(reserved);
    parts_.reserve(reserved * static_cast<size_t>(num_parts_));
  }
  slot_ids_.resize(size, -1);
  slot_parents_.resize(size);
  std::iota(slot_parents_.end() - num_slots_, slot_parents_.end(), 0);
  tokens_.resize(size, -1);
  log_probs_.resize(size, 0);
  parts_.resize(size * static_cast<size_t>(num_parts_), 0);
  ++num_steps_;
}

void SlotHistory::Set(int slot, int parent, int32_t token, float log_prob,
                      absl::Span<const float> parts) {
  BW_DCHECK(num_steps_ > 0 && slot >= 0 && slot < num_slots_ && parent >= 0 && parent < num_slots_);
  const size_t index = Index(num_steps_ - 1, slot);
  slot_ids_[index] = slot;
  slot_parents_[index] = parent;
  tokens_[index] = token;
  log_probs_[index] = log_prob;
  std::copy_n(parts.begin(), num_parts_, parts_.begin() + static_cast<int64_t>(index) * num_parts_);
}

int SlotHistory::ComparePaths(int step, int a, int b) const {
  int order = 0;
  for (; step >= 0 && a != b; --step) {
    const int32_t token_a = token(step, a);
    const int32_t token_b = token(step, b);
    if (token_a != token_b) {
      order = token_a < token_b ? -1 : 1;  // the earliest difference decides: it is seen last
    }
    a = slot_parent(step, a);
    b = slot_parent(step, b);
  }
  return order;
}

// Below 0: `own`, which would end with `pair`, is listed before `other`.
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
