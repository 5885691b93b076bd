// A request of a model whose encoder gives one row of scores, or columns, for each frame: CTC
// (CtcRequest) and sequence tagging (TagRequest). Once the encoder has run, only language
// models run for such a request.
//
// 1. Frames arrive in one of three ways: as the row of a batch of encoded sources (Start), as a
//    whole result of chunks (TakeWhole), or as the caller's own features, whole (StartAlone) or in
//    pieces (TakePiece). TakeFrames turns all of them into log-probabilities.
// 2. Advance runs a bounded number of frames, so that requests take turns: the search (CtcSearch,
//    TagSearch), or the forward algorithm of all targets (CtcScorer, TagLattice) if the request
//    scores.
// 3. DropFrames forgets frames of a stream that the search has passed; `first_held` is the number
//    of the first frame that is still kept.
#include "engine/frames/column_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/frames/frame_stepper.h"
#include "engine/model/model_inputs.h"
#include "engine/model/parts.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/kernels/parallel.h"

namespace beamwright::engine {

const char* ColumnRequest::name() const {
  return model->parts().frames->kind == search::FrameKind::kTags ? "tags" : "ctc";
}

absl::Status ColumnRequest::Start(const ops::ExecutionContext& /*context*/,
                                  const EncodedSources& encoded, int64_t row) {
  const DecodeModel::Parts& parts = model->parts();
  BW_ASSIGN_OR_RETURN(const ops::Tensor output,
                      ResultOfSource(*parts.encoder(), encoded.outputs[0], encoded.num_sources, row,
                                     parts.frames->ctc->result, name(), source.source_length));
  if (output.rank() == 3 && output.dim(2) != parts.frames->num_columns) {
    return absl::InternalError(absl::StrCat("the encoder's frames have ", output.dim(2),
                                            " columns, the target vocabulary asks for ",
                                            parts.frames->num_columns));
  }
  if (output.num_elements() == 0) {
    return NoFrames(source);
  }
  return Annotate(TakeFrames(output), name());
}

absl::Status ColumnRequest::TakeWhole(const ops::ExecutionContext& /*context*/,
                                      const ops::Tensor& whole) {
  return Annotate(TakeFrames(whole), name());
}

absl::Status ColumnRequest::StartAlone(const ops::ExecutionContext& /*context*/) {
  if (is_stream() || StartChunks()) {
    return absl::OkStatus();
  }
  const absl::Status taken = TakeFrames(source.decoder_inputs[0]);
  source.decoder_inputs.clear();
  return status::AtField(taken, "source.features");
}

absl::Status ColumnRequest::TakePiece(const ops::ExecutionContext& /*context*/,
                                      const ops::Tensor& piece) {
  std::vector<float> more;
  BW_RETURN_IF_ERROR(
      status::AtField(CtcLogProbs(*model->parts().frames->ctc, piece, more), "source.features"));
  log_probs.insert(log_probs.end(), more.begin(), more.end());
  num_frames += piece.dim(1);
  return absl::OkStatus();
}

void ColumnRequest::DropFrames(int64_t count) {
  log_probs.erase(log_probs.begin(),
                  log_probs.begin() + count * model->parts().frames->num_columns);
}

absl::Span<const float> ColumnRequest::frame(int64_t number) const {
  const auto columns = static_cast<size_t>(model->parts().frames->num_columns);
  return absl::MakeConstSpan(log_probs).subspan(static_cast<size_t>(number - first_held) * columns,
                                                columns);
}

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

absl::Status ColumnStepper::RunModel(const ops::ExecutionContext& context,
                                     absl::Span<FrameRequest* const> requests) {
  return scorers_.Run(context, requests);
}

void ColumnStepper::Advance(const ops::ExecutionContext& context,
                            absl::Span<FrameRequest* const> requests) {
  int64_t work = 0;
  for (const FrameRequest* const request : requests) {
    constexpr int64_t kPerColumn = 64;
    work += kColumnFramesPerStep * kPerColumn * request->model->parts().frames->num_columns;
  }
  ops::ParallelFor(context.num_threads, static_cast<int64_t>(requests.size()), work,
                   [&](int64_t i) {
                     FrameRequest& request = *requests[static_cast<size_t>(i)];
                     if (!request.is_answered) {
                       request.status = static_cast<ColumnRequest&>(request).Advance();
                     }
                   });
}

}  // namespace beamwright::engine
