#include "engine/frames/context_table.h"

#include <algorithm>
#include <utility>

namespace beamwright::engine {

int32_t ContextTable::Hold(absl::Span<const int32_t> context) {
  Context key(context.begin(), context.end());
  const auto known = slots_.find(key);
  if (known != slots_.end()) {
    Entry& found = entry(known->second);
    if (found.num_holders++ == 0) {
      RemoveIdle(known->second);
    }
    return known->second;
  }
  const int32_t slot = pool_->Allocate();
  entries_.resize(std::max(entries_.size(), static_cast<size_t>(slot) + 1));
  entry(slot) = {key, 1};
  slots_.emplace(std::move(key), slot);
  return slot;
}

bool ContextTable::NeedsRun(int32_t slot, int64_t run) {
  const int64_t before = std::exchange(entry(slot).asked_in, run);
  return !entry(slot).is_ready && before != run;
}

void ContextTable::Release(int32_t slot) {
  if (--entry(slot).num_holders > 0) {
    return;
  }
  if (!entry(slot).is_ready) {
    Forget(slot);
    return;
  }
  AddIdle(slot);
  if (num_idle_ > most_idle_) {
    const int32_t oldest = oldest_;
    RemoveIdle(oldest);
    Forget(oldest);
  }
}

void ContextTable::AddIdle(int32_t slot) {
  entry(slot).older = newest_;
  entry(slot).newer = kNone;
  (newest_ == kNone ? oldest_ : entry(newest_).newer) = slot;
  newest_ = slot;
  ++num_idle_;
}

void ContextTable::RemoveIdle(int32_t slot) {
  const auto [older, newer] = std::pair(entry(slot).older, entry(slot).newer);
  (older == kNone ? oldest_ : entry(older).newer) = newer;
  (newer == kNone ? newest_ : entry(newer).older) = older;
  --num_idle_;
}

void ContextTable::Forget(int32_t slot) {
  slots_.erase(entry(slot).context);
  pool_->Free(slot);
}

}  // namespace beamwright::engine
