// SlotPool: what a predictor says of the label histories of all running requests. A search knows
// its own histories by small numbers (server/search/frames/frame_search.h); here each has a slot
// among those of all, so that one run of the predictor or the joiner takes rows of many requests.
// Private to engine/.
#ifndef BEAMWRIGHT_SERVER_ENGINE_FRAMES_SLOT_POOL_H_
#define BEAMWRIGHT_SERVER_ENGINE_FRAMES_SLOT_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/engine/model/parts.h"

namespace beamwright::engine {

// One thread at a time.
class SlotPool {
 public:
  // The slot before any label: states as the bundle starts them. Never freed.
  static constexpr int32_t kStart = 0;

  explicit SlotPool(const TransducerPart& part);

  int32_t Allocate();
  void Free(int32_t slot);

  // By state of the predictor, and by output that the joiner reads: [slots, ...].
  const std::vector<ops::Tensor>& states() const { return states_; }
  const std::vector<ops::Tensor>& outputs() const { return outputs_; }
  // Memory of a slot.
  int64_t slot_bytes() const;

  // slots[i] takes row i of each of `states` and `outputs`.
  void Scatter(absl::Span<const int32_t> slots, const std::vector<ops::Tensor>& states,
               absl::Span<const ops::Tensor> outputs);

 private:
  void Grow(int64_t capacity);

  const TransducerPart& part_;
  std::vector<ops::Tensor> states_;
  std::vector<ops::Tensor> outputs_;
  std::vector<int32_t> free_;
  int64_t capacity_ = 0;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_FRAMES_SLOT_POOL_H_
