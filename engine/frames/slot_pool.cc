// Where states and outputs of a predictor are kept from round to round.
//
// SlotPool: tensors whose rows are slots. Slot 0 (kStart) holds the states before the first label.
// If no slot is free the tensors grow to twice their rows; Scatter writes the results of a run, row
// by row, into the slots that it was run for.
//
// ContextTable, for predictors without states: a result depends on the last few labels alone, so
// one slot serves all hypotheses with these labels. Hold and Release count the holders. A slot
// without holders stays, oldest first in a list (AddIdle), until more than `most_idle_` are kept; a
// slot whose predictor has not been run yet is given back at once.
#include "engine/frames/slot_pool.h"

#include <algorithm>
#include <utility>

namespace beamwright::engine {
namespace {

using ops::Tensor;

// `rows` rows of `shape`, those of `tensor` first.
void GrowRows(ops::DType dtype, ops::Shape shape, int64_t rows, Tensor& tensor) {
  shape[0] = rows;
  Tensor grown = Tensor::Zeros(dtype, std::move(shape));
  if (tensor.has_value()) {
    std::memcpy(grown.mutable_bytes(), tensor.bytes(), static_cast<size_t>(tensor.num_bytes()));
  }
  tensor = std::move(grown);
}

int64_t RowBytes(const Tensor& tensor) { return tensor.num_bytes() / tensor.dim(0); }

void ScatterRows(absl::Span<const int32_t> slots, const Tensor& rows, Tensor& all) {
  const int64_t bytes = RowBytes(all);
  std::byte* const to = all.mutable_bytes();
  for (size_t i = 0; i < slots.size(); ++i) {
    std::memcpy(to + slots[i] * bytes, rows.bytes() + static_cast<int64_t>(i) * bytes,
                static_cast<size_t>(bytes));
  }
}

}  // namespace

SlotPool::SlotPool(std::vector<Tensor> start, std::vector<ops::ValueInfo> outputs)
    : output_infos_(std::move(outputs)), states_(std::move(start)), outputs_(output_infos_.size()) {
  Grow(32);
  free_.pop_back();  // kStart, whose states are there
}

int64_t SlotPool::slot_bytes() const {
  int64_t bytes = 0;
  for (const std::vector<Tensor>* const tensors : {&states_, &outputs_}) {
    for (const Tensor& tensor : *tensors) {
      bytes += RowBytes(tensor);
    }
  }
  return bytes;
}

void SlotPool::Grow(int64_t capacity) {
  for (Tensor& state : states_) {
    GrowRows(state.dtype(), state.shape(), capacity, state);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    GrowRows(output_infos_[i].dtype, output_infos_[i].shape.dims(), capacity, outputs_[i]);
  }
  for (int64_t slot = capacity; slot-- > capacity_;) {
    free_.push_back(static_cast<int32_t>(slot));
  }
  capacity_ = capacity;
}

int32_t SlotPool::Allocate() {
  if (free_.empty()) {
    Grow(2 * capacity_);
  }
  const int32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotPool::Free(int32_t slot) { free_.push_back(slot); }

void SlotPool::Scatter(absl::Span<const int32_t> slots, const std::vector<Tensor>& states,
                       absl::Span<const Tensor> outputs) {
  for (size_t i = 0; i < states_.size(); ++i) {
    ScatterRows(slots, states[i], states_[i]);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    ScatterRows(slots, outputs[i], outputs_[i]);
  }
}

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
