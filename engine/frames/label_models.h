// What models say of label histories in a search by frames: slots for the results of each history,
// a transducer's predictor's and recurrent language models', and these models as scorers of rows.
// Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_LABEL_MODELS_H_
#define BEAMWRIGHT_ENGINE_FRAMES_LABEL_MODELS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/frames/frame_request.h"
#include "engine/frames/frame_request_kinds.h"
#include "engine/model/parts.h"
#include "ops/decoder/transducer.h"
#include "ops/graph/graph.h"
#include "ops/tensor/tensor.h"

namespace beamwright::engine {

// What a predictor, or a language model, says of label histories, in slots that all running
// requests share; the contexts of stateless predictors; and what a joiner's rows read of both.

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

// LabelModel: a recurrent language model of a search by frames at work. It reads label histories,
// as a transducer's predictor does: each is run once, with those of all requests, and what it says
// of the next label stays with the history for all frames that hypotheses stand at it.

// One thread at a time. A run: Begin, Add for each new history, Run.
class LabelModel {
 public:
  // decoder: reads no source, and outlives this. begin_token: what it reads before any label.
  LabelModel(const DecoderPart& decoder, int32_t begin_token)
      : decoder_(&decoder), begin_token_(begin_token) {}

  // An error: what the model begins with can't be computed, or the run was interrupted.
  absl::Status Begin(const ops::ExecutionContext& context);
  // The history of slot `parent`, and then `label`; both -1: the empty one. slot: where it goes;
  // -1: one is taken. Adding a slot once more, after a run that was broken off, is no error.
  void Add(int32_t parent, int32_t label, int32_t& slot);
  int64_t num_added() const { return static_cast<int64_t>(targets_.size()); }
  absl::Status Run(const ops::ExecutionContext& context);
  // Natural-log probabilities of what follows the `number`-th history that was added. Internal:
  // a score is NaN.
  absl::Status LogProbs(int64_t number, absl::Span<float> log_probs) const;

  void Free(int32_t slot) { pool_->Free(slot); }

 private:
  const DecoderPart* decoder_;
  int32_t begin_token_;
  ops::StartValues start_;
  std::optional<SlotPool> pool_;  // from the first Begin on

  std::vector<int32_t> parents_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> targets_;
  ops::Tensor token_tensor_;
  ops::LoopBody::RowScratch scratch_;
  std::vector<ops::Tensor> states_;
  std::vector<ops::Tensor> results_;
  ops::Tensor computed_;  // scores, where the projection was split off
  const ops::Tensor* scores_ = nullptr;
};

// InternalModel: what a transducer itself has learnt of its labels, as a language model: the
// joiner's scores of a label history with a frame of zeros, as a distribution over labels, blank
// left out (Meng et al. 2021, arXiv 2011.01991; docs/decoding.md, 'Frames'). Subtracted, it leaves
// room for a language model of another text. A history is scored once, when a label makes it.

// One thread at a time. A run: Begin, List for each request, Run.
class InternalModel {
 public:
  // part, of the model: outlives this.
  explicit InternalModel(const TransducerPart& part) : part_(part) {}

  void Begin() { rows_.clear(); }
  // Adds the request's new histories, if it asks for the model. Their slots of the predictor's pool
  // have what it says of them when Run is called.
  void List(TransducerRequest& request);
  // Fills their rows of the requests' label_rows, or label_status where scores are NaN. Not OK: the
  // joiner failed, or was interrupted.
  absl::Status Run(const ops::ExecutionContext& context, const SlotPool& pool);

 private:
  struct Row {
    TransducerRequest* request = nullptr;
    size_t scorer = 0;  // of the request
    int32_t slot = 0;   // of its search
    int32_t pool_slot = 0;
  };

  absl::Status MakeZeroFrame(const ops::ExecutionContext& context);
  // log_probs [tokens] of scores [columns].
  absl::Status ToLabels(absl::Span<const float> scores, absl::Span<float> log_probs);

  const TransducerPart& part_;
  std::vector<ops::Tensor> zero_frame_;  // what the joiner reads of it, one row each
  std::vector<Row> rows_;
  std::vector<ops::Tensor> inputs_;
  std::vector<int32_t> own_rows_;
  ops::RowGraph::Scratch scratch_;
  std::vector<ops::Tensor> none_;
  std::vector<ops::Tensor> results_;
  std::vector<float> scores_;  // [rows, columns], where the joiner's last product was split off
  std::vector<float> columns_;
};

// RowScorers: scorers of a search by frames whose log-probabilities come with its rows
// (search::FrameOptions::scorers): recurrent language models, stepped here over the new label
// histories of all requests together, and a transducer's internal language model, which the
// transducer's stepper computes (docs/decoding.md, 'Frames').

// One thread at a time.
class RowScorers {
 public:
  // parts: outlives this.
  explicit RowScorers(const DecodeModel::Parts& parts);

  // Runs the language models that requests ask for over what their searches' label_steps say.
  // Fills their `label_rows`; a row that can't be used is reported by their `label_status`. Not OK:
  // a model failed, or was interrupted; it can be made again.
  absl::Status Run(const ops::ExecutionContext& context, absl::Span<FrameRequest* const> requests);
  // The request leaves, or its search does: its histories are forgotten.
  void Leave(FrameRequest& request);

 private:
  // A row of a language model's run: whose it is.
  struct Added {
    FrameRequest* request = nullptr;
    size_t scorer = 0;  // of the request
    int32_t slot = 0;   // of its search
    int64_t number = 0;
    LabelModel* model = nullptr;
  };

  void List(FrameRequest& request);

  const DecodeModel::Parts& parts_;
  std::vector<std::unique_ptr<LabelModel>> models_;  // by number of Parts::decoders
  std::vector<Added> added_;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_LABEL_MODELS_H_
