// LabelModel: a recurrent language model of a search by frames at work. It reads label histories,
// as a transducer's predictor does: each is run once, with those of all requests, and what it says
// of the next label stays with the history for all frames that hypotheses stand at it. Private to
// engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_LABEL_MODEL_H_
#define BEAMWRIGHT_ENGINE_FRAMES_LABEL_MODEL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/frames/slot_pool.h"
#include "engine/model/parts.h"

namespace beamwright::engine {

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

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_LABEL_MODEL_H_
