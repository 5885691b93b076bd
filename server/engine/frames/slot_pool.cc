#include "server/engine/frames/slot_pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace beamwright::engine {
namespace {

using ops::Tensor;

// `tensor` with so many rows of `info`'s form, its own first.
void GrowRows(const ops::ValueInfo& info, int64_t rows, Tensor& tensor) {
  ops::Shape shape = info.shape.dims();
  shape[0] = rows;
  Tensor grown = Tensor::Zeros(info.dtype, std::move(shape));
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

SlotPool::SlotPool(const TransducerPart& part) : part_(part) {
  states_.resize(part.graphs.predictor->states().size());
  outputs_.resize(static_cast<size_t>(part.num_outputs()));
  Grow(32);
  free_.pop_back();  // kStart
  for (size_t i = 0; i < states_.size(); ++i) {
    const auto fill = [value = part.state_constants[i]](auto* data, int64_t count) {
      std::fill_n(data, count, static_cast<std::decay_t<decltype(*data)>>(value));
    };
    const int64_t count = states_[i].num_elements() / capacity_;
    if (states_[i].dtype() == ops::DType::kF32) {
      fill(states_[i].mutable_data<float>(), count);
    } else if (states_[i].dtype() == ops::DType::kI64) {
      fill(states_[i].mutable_data<int64_t>(), count);
    }
  }
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
  for (size_t i = 0; i < states_.size(); ++i) {
    GrowRows(part_.graphs.predictor->states()[i], capacity, states_[i]);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    GrowRows(part_.graphs.predictor->result(part_.graphs.first_output + static_cast<int>(i)),
             capacity, outputs_[i]);
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
