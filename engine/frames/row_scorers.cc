// Language models in searches by frames: each new label history of a search is a row of a
// LabelModel's run, whatever its request.
//
// 1. List enters the histories that a search added in the last step, each with the slot of the
//    history that it continues.
// 2. Run steps each language model once over all rows.
// 3. The log-probabilities of a row become the request's FusedRow for that slot. A row with NaN
//    fails its request alone (label_status).
#include "engine/frames/row_scorers.h"

#include <algorithm>

#include "ops/base/status.h"

namespace beamwright::engine {

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
