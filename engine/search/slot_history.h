// What a search did, step by step, in the form that GatherTree reads: fixed columns ("slots") and,
// for each step, who got a token and whom it continues. No row ever copies its history; the paths
// are found once, at the end.
//
// A search with beam B and n-best list N has B + N slots. Live row i of a step is in slot i; a
// finished hypothesis in one of the slots B to B + N - 1, where it rests: it gets no token any more
// and is its own parent. A slot may be given to a better finished hypothesis later; what it held
// before is then forgotten, because the walk back from the end leaves the slot at the new one.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_SLOT_HISTORY_H_
#define BEAMWRIGHT_ENGINE_SEARCH_SLOT_HISTORY_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace beamwright::search {

// Not thread-safe. 16 bytes per slot and step, and 4 per part; grows as the search goes on, up to
// max_steps.
class SlotHistory {
 public:
  SlotHistory(int num_slots, int max_steps, int num_parts = 0);

  // A new last step in which every slot rests. At most max_steps times.
  void AddStep();
  // In the last step, `slot` gets a token and continues slot `parent` of the step before.
  // parts: num_parts or more, of which these are kept.
  void Set(int slot, int parent, int32_t token, float log_prob, absl::Span<const float> parts = {});

  int num_steps() const { return num_steps_; }
  int num_slots() const { return num_slots_; }

  // All [num_steps, num_slots], row-major. Views until the next AddStep.
  // The slot's own number where it got a token, else -1.
  absl::Span<const int32_t> slot_ids() const { return slot_ids_; }
  // The slot of the step before; the slot's own number where it got no token.
  absl::Span<const int32_t> slot_parents() const { return slot_parents_; }
  // Token and log-probability; -1 and 0 without a token.
  absl::Span<const int32_t> tokens() const { return tokens_; }
  absl::Span<const float> log_probs() const { return log_probs_; }

  int32_t slot_id(int step, int slot) const { return slot_ids_[Index(step, slot)]; }
  int32_t slot_parent(int step, int slot) const { return slot_parents_[Index(step, slot)]; }
  int32_t token(int step, int slot) const { return tokens_[Index(step, slot)]; }
  float log_prob(int step, int slot) const { return log_probs_[Index(step, slot)]; }
  float part(int step, int slot, int part) const {
    return parts_[Index(step, slot) * static_cast<size_t>(num_parts_) + static_cast<size_t>(part)];
  }

  // Lexicographic order of the token sequences that end in slots a and b of a step, both of which
  // got a token there: negative, 0 or positive. step may be -1 (both empty). Walks back until the
  // two paths meet.
  int ComparePaths(int step, int a, int b) const;

 private:
  size_t Index(int step, int slot) const {
    return static_cast<size_t>(step) * static_cast<size_t>(num_slots_) + static_cast<size_t>(slot);
  }

  int num_slots_;
  int max_steps_;
  int num_parts_;
  int num_steps_ = 0;
  std::vector<int32_t> slot_ids_;
  std::vector<int32_t> slot_parents_;
  std::vector<int32_t> tokens_;
  std::vector<float> log_probs_;
  std::vector<float> parts_;  // [num_steps, num_slots, num_parts]
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_SLOT_HISTORY_H_
