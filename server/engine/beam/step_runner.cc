#include "server/engine/beam/step_runner.h"

#include <utility>

#include "ops/base/status.h"

namespace beamwright::engine {

void StepRunner::Begin() {
  parents_.clear();
  tokens_.clear();
  rows_per_request_.clear();
  values_.clear();
  starts_.clear();
  added_.clear();
  has_run_ = false;
  states_.resize(static_cast<size_t>(decoder_->body->num_states()));
  num_sources_ = states_.empty() || !states_[0].has_value() ? 0 : states_[0].dim(0);
}

void StepRunner::Add(const search::RowSearch& search, DecoderRows& rows) {
  added_.push_back(&rows);
  rows.first_row_before = rows.first_row;
  rows.repeats_before = std::exchange(rows.repeats, false);
  if (rows.first_row < 0) {
    rows.first_row = static_cast<int>(num_sources_++);
    starts_.push_back(&rows.start.states);
  }
  int32_t own = 0;
  for (const int32_t parent : search.parents()) {
    parents_.push_back(rows.first_row + (rows.repeats_before ? own++ : parent));
  }
  rows.first_row = num_rows();
  tokens_.insert(tokens_.end(), search.tokens().begin(), search.tokens().end());
  rows_per_request_.push_back(search.num_rows());
  values_.push_back(&rows.start.values);
}

void StepRunner::Repeat() {
  if (has_run_) {
    decoder_->body->RestoreStates(scratch_, states_);
  }
  for (DecoderRows* const rows : added_) {
    rows->repeats = has_run_ || rows->repeats_before;
    rows->first_row = has_run_ ? rows->first_row : rows->first_row_before;
  }
  has_run_ = false;
}

absl::Status StepRunner::Run(const ops::ExecutionContext& context, bool reads_attention) {
  decoder_->FillTokens(tokens_, token_tensor_);
  const ops::LoopBody::RowStep step{values_,  rows_per_request_,
                                    parents_, {&token_tensor_, 1},
                                    starts_,  reads_attention ? decoder_->attention_result : -1};
  has_run_ = true;
  BW_RETURN_IF_ERROR(decoder_->body->StepRows(context, step, scratch_, states_, results_));
  const ops::Tensor& result = results_[static_cast<size_t>(decoder_->logits_result)];
  const int64_t width =
      decoder_->projection == nullptr ? decoder_->vocabulary_size : projection()->depth();
  if (!result.has_value() || result.num_elements() != num_rows() * width) {
    return absl::InternalError(absl::StrCat("the step gave ", ops::ToString(result.shape()),
                                            " for ", num_rows(), " rows of ", width,
                                            projection() == nullptr ? " scores" : " to project"));
  }
  return absl::OkStatus();
}

void StepRunner::ComputeScores(const ops::ExecutionContext& context) {
  AllScores(*decoder_, context, results_[static_cast<size_t>(decoder_->logits_result)], scores_);
}

ops::ConstMatrix<float> StepRunner::hidden() const {
  const ops::Tensor& result = results_[static_cast<size_t>(decoder_->logits_result)];
  return {result.data<float>(), num_rows(), projection()->depth(), projection()->depth()};
}

absl::Span<const float> StepRunner::Scores(int row) const {
  const ops::Tensor& scores =
      projection() == nullptr ? results_[static_cast<size_t>(decoder_->logits_result)] : scores_;
  return {scores.data<float>() + int64_t{row} * decoder_->vocabulary_size,
          static_cast<size_t>(decoder_->vocabulary_size)};
}

absl::Status TryStep(const ops::SteppedDecoder& decoder, int32_t begin_token,
                     const ops::ExecutionContext& context, StartValues& start) {
  ops::LoopBody::RequestValues* const values = &start.values;
  const int rows = 1;
  const int32_t parent = 0;
  const ops::Tensor token = decoder.TokenTensor({begin_token});
  const ops::LoopBody::RowStep step{{&values, 1}, {&rows, 1}, {&parent, 1}, {&token, 1}};
  ops::LoopBody::RowScratch scratch;
  std::vector<ops::Tensor> states = start.states;
  std::vector<ops::Tensor> results;
  BW_RETURN_IF_ERROR(decoder.body->StepRows(context, step, scratch, states, results));
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].shape() != start.states[i].shape()) {
      return Invalid("state ", i, " is ", ops::ToString(start.states[i].shape()), " and becomes ",
                     ops::ToString(states[i].shape()));
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::engine
