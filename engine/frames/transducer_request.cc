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
#include "engine/frames/transducer_request.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/model/model_inputs.h"
#include "engine/model/parts.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {
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
