#include "engine/frames/slot_pool.h"

#include <algorithm>
#include <cstring>
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

}  // namespace beamwright::engine
