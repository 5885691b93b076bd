// One language model over label histories. Its states are in a SlotPool; a run reads the states of
// the parents' slots, steps the decoder's body over all new histories, and writes the next states
// into their slots. The start's states are computed once and lie in slot 0.
#include "engine/frames/label_model.h"

#include <utility>

#include "engine/model/model_inputs.h"
#include "ops/base/status.h"
#include "ops/kernels/panel_scan.h"

namespace beamwright::engine {

absl::Status LabelModel::Begin(const ops::ExecutionContext& context) {
  parents_.clear();
  tokens_.clear();
  targets_.clear();
  if (!pool_.has_value()) {
    BW_ASSIGN_OR_RETURN(const std::vector<ops::Tensor> inputs,
                        DecoderInputs(*decoder_, {}, 1, 0, 0));
    BW_RETURN_IF_ERROR(Prepare(*decoder_, context, inputs, start_));
    pool_.emplace(start_.states, std::vector<ops::ValueInfo>());
  }
  return absl::OkStatus();
}

void LabelModel::Add(int32_t parent, int32_t label, int32_t& slot) {
  slot = slot < 0 ? pool_->Allocate() : slot;
  parents_.push_back(parent < 0 ? SlotPool::kStart : parent);
  tokens_.push_back(label < 0 ? begin_token_ : label);
  targets_.push_back(slot);
}

absl::Status LabelModel::Run(const ops::ExecutionContext& context) {
  if (targets_.empty()) {
    return absl::OkStatus();
  }
  decoder_->FillTokens(tokens_, token_tensor_);
  ops::LoopBody::RequestValues* const values = &start_.values;
  const auto rows = static_cast<int>(targets_.size());
  states_ = pool_->states();  // shared, and left as they are
  const absl::Status status =
      decoder_->body->StepRows(context, {{&values, 1}, {&rows, 1}, parents_, {&token_tensor_, 1}},
                               scratch_, states_, results_);
  if (!status.ok()) {
    states_.clear();
    return status;
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].num_bytes() / rows != start_.states[i].num_bytes()) {
      return absl::InternalError(absl::StrCat("state ", i, " is ",
                                              ops::ToString(start_.states[i].shape()),
                                              " and becomes ", ops::ToString(states_[i].shape())));
    }
  }
  pool_->Scatter(targets_, states_, {});
  scores_ = &AllScores(*decoder_, context, results_[static_cast<size_t>(decoder_->logits_result)],
                       computed_);
  if (scores_->num_elements() != int64_t{rows} * decoder_->vocabulary_size) {
    return absl::InternalError(absl::StrCat("the step gave ", ops::ToString(scores_->shape()),
                                            " for ", rows, " rows of ", decoder_->vocabulary_size,
                                            " scores"));
  }
  return absl::OkStatus();
}

absl::Status LabelModel::LogProbs(int64_t number, absl::Span<float> log_probs) const {
  const absl::Span<const float> scores(scores_->data<float>() + number * decoder_->vocabulary_size,
                                       static_cast<size_t>(decoder_->vocabulary_size));
  return ops::ToLogProbs(scores, decoder_->logits_kind, log_probs);
}

}  // namespace beamwright::engine
