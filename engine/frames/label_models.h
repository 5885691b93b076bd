// Language models over label histories in a search by frames: recurrent ones, what a transducer
// itself has learnt, and both as scorers of rows. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_LABEL_MODELS_H_
#define BEAMWRIGHT_ENGINE_FRAMES_LABEL_MODELS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/frames/frame_request.h"
#include "engine/frames/slot_pool.h"
#include "engine/frames/transducer_request.h"
#include "engine/model/parts.h"

namespace beamwright::engine {

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
