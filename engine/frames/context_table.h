// ContextTable: which slot of a pool holds what a stateless predictor says of its last tokens. Such
// a predictor knows nothing else of a history, so that histories which end alike share a slot, and
// one that comes up again, as most do in speech, needs no run of the predictor. Slots that no
// history holds any more are kept while there is room, the least recently used given up first. A
// row of the predictor does not depend on its neighbours, so the bits are those of a run. Private
// to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_CONTEXT_TABLE_H_
#define BEAMWRIGHT_ENGINE_FRAMES_CONTEXT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "engine/frames/slot_pool.h"

namespace beamwright::engine {

// One thread at a time.
class ContextTable {
 public:
  // pool: outlives this; its slots are taken here alone. most_idle: slots that are kept though
  // no history holds them.
  ContextTable(SlotPool& pool, size_t most_idle) : pool_(&pool), most_idle_(most_idle) {}

  // The slot of a context, which the caller holds once more.
  int32_t Hold(absl::Span<const int32_t> context);
  void Release(int32_t slot);

  // Of a slot that is held.
  absl::Span<const int32_t> context(int32_t slot) const { return entry(slot).context; }
  // Whether the predictor has yet to run for it, and no other caller asked so before in this run. A
  // run that was broken off is asked for again under another number.
  bool NeedsRun(int32_t slot, int64_t run);
  // The predictor's results are in it.
  void SetReady(int32_t slot) { entry(slot).is_ready = true; }

  // Contexts that are held or kept.
  size_t size() const { return slots_.size(); }

 private:
  using Context = absl::InlinedVector<int32_t, 4>;
  static constexpr int32_t kNone = -1;
  struct Entry {
    Context context;
    int num_holders = 0;
    bool is_ready = false;
    int64_t asked_in = 0;   // run
    int32_t older = kNone;  // of those that are idle
    int32_t newer = kNone;
  };

  Entry& entry(int32_t slot) { return entries_[static_cast<size_t>(slot)]; }
  const Entry& entry(int32_t slot) const { return entries_[static_cast<size_t>(slot)]; }
  void AddIdle(int32_t slot);
  void RemoveIdle(int32_t slot);
  void Forget(int32_t slot);

  SlotPool* pool_;
  size_t most_idle_;
  absl::flat_hash_map<Context, int32_t> slots_;
  std::vector<Entry> entries_;  // by slot
  int32_t oldest_ = kNone;
  int32_t newest_ = kNone;
  size_t num_idle_ = 0;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_CONTEXT_TABLE_H_
