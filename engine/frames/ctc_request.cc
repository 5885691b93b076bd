#include "engine/frames/ctc_request.h"

#include <algorithm>
#include <utility>

#include "engine/model/ctc_output.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

// States of the forward algorithm in a step.
constexpr int64_t kStatesPerStep = 1 << 19;

}  // namespace

void CtcRequest::StartSearch() {
  const search::CtcBegin begin = was_cut ? search->End() : search::CtcBegin();
  search.emplace(plan, begin);
}

absl::Status CtcRequest::TakeFrames(const ops::Tensor& output) {
  BW_RETURN_IF_ERROR(CtcLogProbs(*model->parts().frames->ctc, output, log_probs));
  num_frames = static_cast<int64_t>(log_probs.size()) / model->parts().frames->num_columns;
  if (search.has_value()) {
    search->AddFrames(num_frames);
    search->Finish();
  }
  return absl::OkStatus();
}

absl::Status CtcRequest::StartScoring() {
  for (const search::TokenSequence& target : targets) {
    BW_ASSIGN_OR_RETURN(search::CtcScorer scorer, search::CtcScorer::Create(scoring, target));
    scorers.push_back(std::move(scorer));
  }
  next_scored = 0;
  return absl::OkStatus();
}

absl::Status CtcRequest::Advance() {
  if (!is_scoring) {
    BW_RETURN_IF_ERROR(label_status);
    for (int64_t i = 0; i < frames_per_step(); ++i) {
      while (row_scorers.empty() && search->rows().empty() && !search->done() && Announce()) {
      }
      if (search->rows().empty()) {
        break;
      }
      fused.clear();
      for (const search::FrameRow& row : search->rows()) {
        if (const search::FusedRow* const scored = label_row(row.slot); scored != nullptr) {
          fused.push_back(scored);
        }
      }
      BW_RETURN_IF_ERROR(search->Advance(frame(search->frame()), fused));
    }
    return absl::OkStatus();
  }
  int64_t states = 1;
  for (const search::TokenSequence& target : targets) {
    states += 2 * static_cast<int64_t>(target.size()) + 1;
  }
  const int64_t count = std::clamp<int64_t>(kStatesPerStep / states, 1, kColumnFramesPerStep);
  const int64_t end = std::min(next_scored + count, num_frames);
  for (; next_scored < end; ++next_scored) {
    for (search::CtcScorer& scorer : scorers) {
      BW_RETURN_IF_ERROR(scorer.Advance(frame(next_scored)));
    }
  }
  return absl::OkStatus();
}

std::vector<search::FrameScore> CtcRequest::Scores() const {
  std::vector<search::FrameScore> scores;
  for (const search::CtcScorer& scorer : scorers) {
    scores.push_back(scorer.Result());
  }
  return scores;
}

}  // namespace beamwright::engine
