#include "engine/search/slot_history.h"

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

}  // namespace beamwright::search
