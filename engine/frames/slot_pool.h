// What a predictor, or a language model, says of label histories, in slots that all running
// requests share; the contexts of stateless predictors; and what a joiner's rows read of both.
// Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_SLOT_POOL_H_
#define BEAMWRIGHT_ENGINE_FRAMES_SLOT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "ops/decoder/transducer.h"
#include "ops/graph/graph.h"
#include "ops/tensor/tensor.h"

namespace beamwright::engine {

// SlotPool: what a predictor, or a language model, says of the label histories of all running
// requests. A search knows its own histories by small numbers
// (engine/search/frames/frame_search.h); here each has a slot among those of all, so that one run
// of a graph takes rows of many requests.

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

// ContextTable: which slot of a pool holds what a stateless predictor says of its last tokens. Such
// a predictor knows nothing else of a history, so that histories which end alike share a slot, and
// one that comes up again, as most do in speech, needs no run of the predictor. Slots that no
// history holds any more are kept while there is room, the least recently used given up first. A
// row of the predictor does not depend on its neighbours, so the bits are those of a run.

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

// What a joiner's rows read: of a frame, and of a label history's slot.

// A row of a tensor.
struct TensorRow {
  const ops::Tensor& rows;
  int64_t row = 0;
};

// Copies what `count` rows read into `inputs`, one tensor for each input of the joiner.
// frame_of(row, result): what the row has as the numbered result of `graphs.frames`, or as its
// frame. slot_of(row): its history's slot of `pool`.
template <typename FrameOf, typename SlotOf>
void FillJoinerInputs(const ops::Transducer& graphs, const SlotPool& pool, int64_t count,
                      const FrameOf& frame_of, const SlotOf& slot_of,
                      std::vector<ops::Tensor>& inputs) {
  inputs.resize(graphs.joiner_inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ops::Transducer::Input& input = graphs.joiner_inputs[i];
    const ops::ValueInfo& info = graphs.joiner->inputs()[i];
    ops::Shape shape = info.shape.dims();
    shape[0] = count;
    inputs[i].Resize(info.dtype, shape);
    for (int64_t row = 0; row < count; ++row) {
      const TensorRow from =
          input.is_of_frame
              ? frame_of(row, input.result)
              : TensorRow{pool.outputs()[static_cast<size_t>(input.result - graphs.first_output)],
                          slot_of(row)};
      const int64_t bytes = from.rows.num_bytes() / from.rows.dim(0);
      std::memcpy(inputs[i].mutable_bytes() + row * bytes, from.rows.bytes() + from.row * bytes,
                  static_cast<size_t>(bytes));
    }
  }
}

// 0, 1, 2, ...: rows of a graph without states.
inline void CountRows(size_t count, std::vector<int32_t>& rows) {
  rows.resize(count);
  std::iota(rows.begin(), rows.end(), 0);
}

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_SLOT_POOL_H_
