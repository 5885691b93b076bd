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
#include "engine/frames/frame_request_kinds.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/frames/frame_driver.h"
#include "engine/frames/frame_request.h"
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

// One request of a transducer: what it keeps of its frames, and how its search or scoring starts.
// The driver steps predictor and joiner for all requests (frame_driver.cc).
//
// 1. Start (an encoded source), StartAlone (frames that the request brings) or TakePiece (a
//    stream's next frames).
// 2. FramesOfJoiner runs the part of the joiner that depends on frames only, once for all frames,
//    in parts of kFramesPerRun, and keeps its results: a step then reads rows of them.
// 3. DropFrames copies what is still needed, so that the memory of read frames is freed.
// 4. StartSearch: a new search per segment of a stream. If the segment before was cut in the middle
//    of speech, the predictor continues from its last tokens (last_tokens).

namespace {

using ops::Tensor;

// Frames of one run of the joiner's part for frames: it bounds the memory of its values.
constexpr int64_t kFramesPerRun = 512;

// The rows of one tensor, then those of the other.
Tensor Joined(const Tensor& a, const Tensor& b) {
  ops::Shape shape = a.shape();
  shape[0] += b.dim(0);
  Tensor joined(a.dtype(), std::move(shape));
  std::copy_n(a.bytes(), a.num_bytes(), joined.mutable_bytes());
  std::copy_n(b.bytes(), b.num_bytes(), joined.mutable_bytes() + a.num_bytes());
  return joined;
}

// The frames of one source, [frames, width], as the encoder gives them.
absl::StatusOr<Tensor> FramesOf(const FramesPart& part, const Tensor& output) {
  const int64_t width = part.frame_width;
  const TransducerPart& transducer = *part.transducer;
  if (output.dtype() != ops::DType::kF32 || output.rank() != 3) {
    return absl::InternalError(absl::StrCat("the encoder's frames are ", ops::Name(output.dtype()),
                                            ops::ToString(output.shape()),
                                            "; they must be f32 [1, ", "frames, ", width, "]"));
  }
  const bool width_first = transducer.frame_axis == 2;
  const int64_t own = output.dim(width_first ? 1 : 2);
  if (own != width || output.dim(0) != 1) {
    return absl::InternalError(absl::StrCat("the encoder's frames are ",
                                            ops::ToString(output.shape()), "; the joiner takes ",
                                            width, " values a frame"));
  }
  const int64_t count = output.num_elements() / width;
  if (!width_first) {
    return output.Reshaped({count, width});
  }
  Tensor frames(ops::DType::kF32, {count, width});
  for (int64_t frame = 0; frame < count; ++frame) {
    for (int64_t i = 0; i < width; ++i) {
      frames.mutable_data<float>()[frame * width + i] = output.data<float>()[i * count + frame];
    }
  }
  return frames;
}

}  // namespace

absl::Status TransducerRequest::TakeFrames(const ops::ExecutionContext& context,
                                           const Tensor& output) {
  num_frames = output.dim(0);
  if (search.has_value()) {
    search->AddFrames(num_frames);
    search->Finish();
  }
  BW_ASSIGN_OR_RETURN(frames, FramesOfJoiner(context, output));
  return absl::OkStatus();
}

absl::Status TransducerRequest::TakePiece(const ops::ExecutionContext& context,
                                          const Tensor& piece) {
  BW_ASSIGN_OR_RETURN(std::vector<Tensor> more,
                      FramesOfJoiner(context, piece.Reshaped({piece.dim(1), piece.dim(2)})));
  num_frames += piece.dim(1);
  frames.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) {
    frames[i] = frames[i].has_value() ? Joined(frames[i], more[i]) : std::move(more[i]);
  }
  return absl::OkStatus();
}

void TransducerRequest::DropFrames(int64_t count) {
  for (Tensor& kept : frames) {
    if (count == 0) {
      continue;
    }
    // Copied, so that what is dropped is not held.
    ops::Shape shape = kept.shape();
    shape[0] = 0;
    kept = Joined(kept.Rows(count, kept.dim(0)), Tensor(kept.dtype(), std::move(shape)));
  }
}

absl::StatusOr<std::vector<Tensor>> TransducerRequest::FramesOfJoiner(
    const ops::ExecutionContext& context, const Tensor& output) const {
  const ops::Transducer& graphs = model->parts().frames->transducer->graphs;
  const int64_t count = output.dim(0);
  ops::Shape shape = graphs.frame_shape;
  shape[0] = count;
  const Tensor input = output.Reshaped(std::move(shape));
  if (graphs.frames == nullptr) {
    return std::vector<Tensor>{input};
  }
  ops::RowGraph::Scratch scratch;
  std::vector<Tensor> none;
  std::vector<Tensor> results;
  std::vector<Tensor> all;
  for (int64_t first = 0; first < count; first += kFramesPerRun) {
    const Tensor part = input.Rows(first, std::min(first + kFramesPerRun, count));
    std::vector<int32_t> rows(static_cast<size_t>(part.dim(0)));
    std::iota(rows.begin(), rows.end(), 0);
    BW_RETURN_IF_ERROR(
        Annotate(graphs.frames->Run(context, {&part, 1}, rows, scratch, none, results), "joiner"));
    all.resize(results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (!all[i].has_value()) {
        ops::Shape whole = results[i].shape();
        whole[0] = count;
        all[i] = Tensor(results[i].dtype(), std::move(whole));
      }
      const int64_t row_bytes = all[i].num_bytes() / count;
      std::memcpy(all[i].mutable_bytes() + first * row_bytes, results[i].bytes(),
                  static_cast<size_t>(results[i].num_bytes()));
    }
  }
  return all;
}

absl::Status TransducerRequest::Start(const ops::ExecutionContext& context,
                                      const EncodedSources& encoded, int64_t row) {
  const DecodeModel::Parts& parts = model->parts();
  BW_ASSIGN_OR_RETURN(
      const Tensor output,
      ResultOfSource(*parts.encoder(), encoded.outputs[0], encoded.num_sources, row,
                     parts.frames->transducer->encoder_output, "transducer", source.source_length));
  if (output.num_elements() == 0) {
    return NoFrames(source);
  }
  BW_ASSIGN_OR_RETURN(const Tensor own, FramesOf(*parts.frames, output));
  return TakeFrames(context, own);
}

absl::Status TransducerRequest::TakeWhole(const ops::ExecutionContext& context,
                                          const Tensor& whole) {
  return TakeFrames(context, whole.Reshaped({whole.dim(1), whole.dim(2)}));
}

absl::Status TransducerRequest::StartAlone(const ops::ExecutionContext& context) {
  if (is_stream() || StartChunks()) {
    return absl::OkStatus();
  }
  const Tensor given = source.decoder_inputs[0];
  source.decoder_inputs.clear();
  return TakeFrames(context, given.Reshaped({given.dim(1), given.dim(2)}));
}

void TransducerRequest::StartSearch() {
  if (!was_cut) {
    last_tokens.clear();
    search.emplace(plan);
    return;
  }
  const TransducerPart& part = *model->parts().frames->transducer;
  const std::vector<search::FrameHypothesis> answers = search->Results();
  if (const auto size = static_cast<size_t>(part.context_size); size > 0) {
    if (last_tokens.empty()) {
      last_tokens.assign(size, part.context_start);
      last_tokens.back() = part.start_token;
    }
    if (!answers.empty()) {
      last_tokens.insert(last_tokens.end(), answers[0].labels.begin(), answers[0].labels.end());
    }
    last_tokens.erase(last_tokens.begin(), last_tokens.end() - part.context_size);
  }
  const int64_t first_frame = search->overhang();
  search.emplace(plan, first_frame);
}

absl::Status TransducerRequest::StartScoring() {
  for (const search::TokenSequence& target : targets) {
    BW_ASSIGN_OR_RETURN(search::TransducerScorer scorer,
                        search::TransducerScorer::Create(scoring, target));
    scored.push_back({std::move(scorer)});
  }
  return absl::OkStatus();
}

bool TransducerRequest::is_scored() const {
  return std::all_of(scored.begin(), scored.end(),
                     [this](const Scored& target) { return target.next_frame == num_frames; });
}

std::vector<search::FrameScore> TransducerRequest::Scores() const {
  std::vector<search::FrameScore> scores;
  for (const Scored& target : scored) {
    scores.push_back(target.scorer.Result());
  }
  return scores;
}

}  // namespace beamwright::engine
