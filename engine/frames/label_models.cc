// What is known of label histories in a search by frames. SlotPool and ContextTable keep what a
// predictor computed of a history, LabelModel runs a recurrent language model over new histories,
// and RowScorers asks all models that a request weighs for its rows.
#include "engine/frames/label_models.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/model/model_inputs.h"
#include "ops/base/status.h"
#include "ops/kernels/panel_scan.h"

namespace beamwright::engine {

// Where states and outputs of a predictor are kept from round to round.
//
// SlotPool: tensors whose rows are slots. Slot 0 (kStart) holds the states before the first label.
// If no slot is free the tensors grow to twice their rows; Scatter writes the results of a run, row
// by row, into the slots that it was run for.
//
// ContextTable, for predictors without states: a result depends on the last few labels alone, so
// one slot serves all hypotheses with these labels. Hold and Release count the holders. A slot
// without holders stays, oldest first in a list (AddIdle), until more than `most_idle_` are kept; a
// slot whose predictor has not been run yet is given back at once.

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

int32_t ContextTable::Hold(absl::Span<const int32_t> context) {
  Context key(context.begin(), context.end());
  const auto known = slots_.find(key);
  if (known != slots_.end()) {
    Entry& found = entry(known->second);
    if (found.num_holders++ == 0) {
      RemoveIdle(known->second);
    }
    return known->second;
  }
  const int32_t slot = pool_->Allocate();
  entries_.resize(std::max(entries_.size(), static_cast<size_t>(slot) + 1));
  entry(slot) = {key, 1};
  slots_.emplace(std::move(key), slot);
  return slot;
}

bool ContextTable::NeedsRun(int32_t slot, int64_t run) {
  const int64_t before = std::exchange(entry(slot).asked_in, run);
  return !entry(slot).is_ready && before != run;
}

void ContextTable::Release(int32_t slot) {
  if (--entry(slot).num_holders > 0) {
    return;
  }
  if (!entry(slot).is_ready) {
    Forget(slot);
    return;
  }
  AddIdle(slot);
  if (num_idle_ > most_idle_) {
    const int32_t oldest = oldest_;
    RemoveIdle(oldest);
    Forget(oldest);
  }
}

void ContextTable::AddIdle(int32_t slot) {
  entry(slot).older = newest_;
  entry(slot).newer = kNone;
  (newest_ == kNone ? oldest_ : entry(newest_).newer) = slot;
  newest_ = slot;
  ++num_idle_;
}

void ContextTable::RemoveIdle(int32_t slot) {
  const auto [older, newer] = std::pair(entry(slot).older, entry(slot).newer);
  (older == kNone ? oldest_ : entry(older).newer) = newer;
  (newer == kNone ? newest_ : entry(newer).older) = older;
  --num_idle_;
}

void ContextTable::Forget(int32_t slot) {
  slots_.erase(entry(slot).context);
  pool_->Free(slot);
}

// One language model over label histories. Its states are in a SlotPool; a run reads the states of
// the parents' slots, steps the decoder's body over all new histories, and writes the next states
// into their slots. The start's states are computed once and lie in slot 0.

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

// The transducer's internal language model (as in ILME): what predictor and joiner say without
// sound, which is subtracted when another language model is added.
//
// 1. List collects the label states of requests that ask for it.
// 2. Run calls the joiner for all of them in one batch, with a frame of zeros in the place of the
//    encoder's (MakeZeroFrame, once).
// 3. ToLabels removes the blank from the scores, and makes the others a distribution.

using ops::Tensor;

void InternalModel::List(TransducerRequest& request) {
  for (size_t i = 0; i < request.row_scorers.size(); ++i) {
    if (request.row_scorers[i].decoder >= 0 || request.is_scoring ||
        request.search->rows().empty()) {
      continue;
    }
    for (const search::LabelStep& step : request.search->label_steps()) {
      rows_.push_back({&request, i, step.slot, request.slots[static_cast<size_t>(step.slot)]});
    }
  }
}

absl::Status InternalModel::MakeZeroFrame(const ops::ExecutionContext& context) {
  const ops::Transducer& graphs = part_.graphs;
  ops::Shape shape = graphs.frame_shape;
  shape[0] = 1;
  const Tensor zeros = Tensor::Zeros(ops::DType::kF32, std::move(shape));
  if (graphs.frames == nullptr) {
    zero_frame_ = {zeros};
    return absl::OkStatus();
  }
  ops::RowGraph::Scratch scratch;
  std::vector<Tensor> results;
  BW_RETURN_IF_ERROR(graphs.frames->Run(context, {&zeros, 1}, {0}, scratch, none_, results));
  zero_frame_ = std::move(results);
  return absl::OkStatus();
}

absl::Status InternalModel::ToLabels(absl::Span<const float> scores, absl::Span<float> log_probs) {
  columns_.resize(scores.size());
  BW_RETURN_IF_ERROR(
      ops::ToLogProbs(scores, part_.graphs.joiner->score_kind(), absl::MakeSpan(columns_)));
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < columns_.size(); ++i) {
    largest = i == static_cast<size_t>(part_.blank) ? largest : std::max(largest, columns_[i]);
  }
  double sum = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    sum += i == static_cast<size_t>(part_.blank) ? 0 : std::exp(double{columns_[i]} - largest);
  }
  const double shift = largest + std::log(sum);
  for (size_t i = 0; i < log_probs.size(); ++i) {
    log_probs[i] = static_cast<float>(columns_[i] - shift);
  }
  return absl::OkStatus();
}

absl::Status InternalModel::Run(const ops::ExecutionContext& context, const SlotPool& pool) {
  if (rows_.empty()) {
    return absl::OkStatus();
  }
  if (zero_frame_.empty()) {
    BW_RETURN_IF_ERROR(MakeZeroFrame(context));
  }
  const ops::RowGraph& joiner = *part_.graphs.joiner;
  const auto count = static_cast<int64_t>(rows_.size());
  FillJoinerInputs(
      part_.graphs, pool, count,
      [this](int64_t /*row*/, int result) {
        return TensorRow{zero_frame_[static_cast<size_t>(result)], 0};
      },
      [this](int64_t row) { return rows_[static_cast<size_t>(row)].pool_slot; }, inputs_);
  CountRows(rows_.size(), own_rows_);
  BW_RETURN_IF_ERROR(joiner.Run(context, inputs_, own_rows_, scratch_, none_, results_));
  const float* scores = results_[0].data<float>();
  const int64_t columns = part_.graphs.num_columns;
  if (const ops::VocabularyProjection* const projection = joiner.projection();
      projection != nullptr) {
    scores_.resize(static_cast<size_t>(count * columns));
    projection->Scores(context, {scores, count, projection->depth(), projection->depth()},
                       {scores_.data(), count, columns, columns});
    scores = scores_.data();
  }
  for (int64_t i = 0; i < count; ++i) {
    const Row& row = rows_[static_cast<size_t>(i)];
    search::FusedRow& fused = row.request->label_rows[static_cast<size_t>(row.slot)];
    const auto tokens = static_cast<size_t>(row.request->model->parts().vocabulary_size());
    row.request->label_status.Update(
        Annotate(ToLabels({scores + i * columns, static_cast<size_t>(part_.num_columns)},
                          fused.Scores(row.scorer, tokens)),
                 "the joiner's scores for a frame of zeros"));
  }
  return absl::OkStatus();
}

// Language models in searches by frames: each new label history of a search is a row of a
// LabelModel's run, whatever its request.
//
// 1. List enters the histories that a search added in the last step, each with the slot of the
//    history that it continues.
// 2. Run steps each language model once over all rows.
// 3. The log-probabilities of a row become the request's FusedRow for that slot. A row with NaN
//    fails its request alone (label_status).

RowScorers::RowScorers(const DecodeModel::Parts& parts) : parts_(parts) {
  // Without a token to begin with, the blank, which no history has, stands for the beginning.
  const int begin = parts.target->begin_id() >= 0 ? parts.target->begin_id() : parts.frames->blank;
  for (const auto& decoder : parts.decoders) {
    models_.push_back(std::make_unique<LabelModel>(*decoder, begin));
  }
}

void RowScorers::List(FrameRequest& request) {
  search::FrameSearch& search = *request.frame_search();
  if (search.rows().empty()) {
    return;
  }
  const auto num_slots = static_cast<size_t>(search.num_slots());
  request.label_rows.resize(std::max(request.label_rows.size(), num_slots));
  for (size_t i = 0; i < request.row_scorers.size(); ++i) {
    RowScorer& scorer = request.row_scorers[i];
    if (scorer.decoder < 0) {
      continue;
    }
    scorer.slots.resize(std::max(scorer.slots.size(), num_slots), -1);
    LabelModel& model = *models_[static_cast<size_t>(scorer.decoder)];
    for (const search::LabelStep& step : search.label_steps()) {
      added_.push_back({&request, i, step.slot, model.num_added(), &model});
      model.Add(step.parent_slot < 0 ? -1 : scorer.slots[static_cast<size_t>(step.parent_slot)],
                step.label, scorer.slots[static_cast<size_t>(step.slot)]);
    }
  }
}

absl::Status RowScorers::Run(const ops::ExecutionContext& context,
                             absl::Span<FrameRequest* const> requests) {
  added_.clear();
  for (size_t number = 0; number < models_.size(); ++number) {
    BW_RETURN_IF_ERROR(models_[number]->Begin(context));
  }
  for (FrameRequest* const request : requests) {
    if (!request->row_scorers.empty() && !request->is_scoring) {
      request->label_status = absl::OkStatus();
      List(*request);
    }
  }
  for (const auto& model : models_) {
    BW_RETURN_IF_ERROR(Annotate(model->Run(context), "language model"));
  }
  const auto vocabulary = static_cast<size_t>(parts_.vocabulary_size());
  for (const Added& row : added_) {
    search::FusedRow& fused = row.request->label_rows[static_cast<size_t>(row.slot)];
    row.request->label_status.Update(Annotate(
        row.model->LogProbs(row.number, fused.Scores(row.scorer, vocabulary)),
        absl::StrCat("scorer '", row.request->plan->options().scorers[row.scorer].name, "'")));
  }
  return absl::OkStatus();
}

void RowScorers::Leave(FrameRequest& request) {
  for (RowScorer& scorer : request.row_scorers) {
    for (const int32_t slot : scorer.slots) {
      if (slot >= 0) {
        models_[static_cast<size_t>(scorer.decoder)]->Free(slot);
      }
    }
    scorer.slots.clear();
  }
}

}  // namespace beamwright::engine
