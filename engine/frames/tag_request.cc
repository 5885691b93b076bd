#include "engine/frames/tag_request.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/model/ctc_output.h"
#include "engine/model/parts.h"
#include "ops/base/status.h"

namespace beamwright::engine {

const search::TagTransitions* TagRequest::transitions() const {
  return model->parts().frames->transitions.get();
}

absl::Status TagRequest::TakeFrames(const ops::Tensor& output) {
  const FramesPart& part = *model->parts().frames;
  if (transitions() == nullptr) {
    BW_RETURN_IF_ERROR(CtcLogProbs(*part.ctc, output, log_probs));
  } else {
    BW_RETURN_IF_ERROR(CheckFrames(*part.ctc, output));
    const auto* const emissions = output.data<float>();
    log_probs.assign(emissions, emissions + output.num_elements());
  }
  num_frames = static_cast<int64_t>(log_probs.size()) / part.num_columns;
  if (source.unpadded_length > 0 && num_frames == source.source_length) {
    num_frames = std::min<int64_t>(num_frames, source.unpadded_length);
    log_probs.resize(static_cast<size_t>(num_frames * part.num_columns));
  }
  if (search.has_value()) {
    return search->SetScores(log_probs);
  }
  return lattice->SetScores(log_probs);
}

absl::Status TagRequest::StartScoring() {
  lattice.emplace(scoring, transitions());
  return absl::OkStatus();
}

absl::Status TagRequest::Advance() {
  return search.has_value() ? search->Advance(kColumnFramesPerStep)
                            : lattice->Advance(kColumnFramesPerStep);
}

std::vector<search::FrameScore> TagRequest::Scores() const {
  std::vector<search::FrameScore> scores;
  for (const search::TokenSequence& target : targets) {
    scores.push_back(lattice->ScoreOf(target));
  }
  return scores;
}

}  // namespace beamwright::engine
