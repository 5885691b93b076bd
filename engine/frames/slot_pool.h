// SlotPool: what a predictor, or a language model, says of the label histories of all running
// requests. A search knows its own histories by small numbers
// (engine/search/frames/frame_search.h); here each has a slot among those of all, so that one run
// of a graph takes rows of many requests. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_SLOT_POOL_H_
#define BEAMWRIGHT_ENGINE_FRAMES_SLOT_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ops/graph/graph.h"
#include "ops/tensor/tensor.h"

namespace beamwright::engine {

// One thread at a time.
class SlotPool {
 public:
  // The slot before any label: states as the bundle starts them. Never freed.
  static constexpr int32_t kStart = 0;

  // start: the states before any label, [1, ...] each. outputs: what each output is like; its rows
  // are open.
  SlotPool(std::vector<ops::Tensor> start, std::vector<ops::ValueInfo> outputs);

  int32_t Allocate();
  void Free(int32_t slot);

  // By state, and by output: [slots, ...].
  const std::vector<ops::Tensor>& states() const { return states_; }
  const std::vector<ops::Tensor>& outputs() const { return outputs_; }
  // Memory of a slot.
  int64_t slot_bytes() const;

  // slots[i] takes row i of each of `states` and `outputs`.
  void Scatter(absl::Span<const int32_t> slots, const std::vector<ops::Tensor>& states,
               absl::Span<const ops::Tensor> outputs);

 private:
  void Grow(int64_t capacity);

  const std::vector<ops::ValueInfo> output_infos_;
  std::vector<ops::Tensor> states_;
  std::vector<ops::Tensor> outputs_;
  std::vector<int32_t> free_;
  int64_t capacity_ = 0;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_SLOT_POOL_H_
