// Runs a streaming encoder over the next chunk of several sources together.
//
// 1. NumTogether: at least 16 sources, and more if their encoding takes less than 50 ms by the time
//    that the last run took for each source, so that decoding does not wait too long.
// 2. Run copies the chunks of the sources into one tensor, and runs them as rows with their states;
//    one by one if the encoder was found to mix rows (`apart` is not empty).
// 3. Advance takes a source's frames and new states out of the results, and checks their shape,
//    since a wrong graph shows here.
#include "engine/frames/chunk_encoder.h"

#include <algorithm>
#include <utility>

#include "engine/model/compile_streaming.h"
#include "engine/model/model_inputs.h"
#include "engine/model/parts.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {
namespace {

using ops::Tensor;

// [1, width, frames] as [1, frames, width].
Tensor FramesFirst(const Tensor& output) {
  const int64_t width = output.dim(1);
  const int64_t count = output.dim(2);
  Tensor frames(ops::DType::kF32, {1, count, width});
  for (int64_t frame = 0; frame < count; ++frame) {
    for (int64_t i = 0; i < width; ++i) {
      frames.mutable_data<float>()[frame * width + i] = output.data<float>()[i * count + frame];
    }
  }
  return frames;
}

}  // namespace

size_t ChunkEncoder::NumTogether(size_t waiting) const {
  constexpr size_t kLeast = 16;
  constexpr absl::Duration kMost = absl::Milliseconds(50);
  const auto fit = per_source_ > absl::ZeroDuration()
                       ? static_cast<size_t>(absl::FDivDuration(kMost, per_source_))
                       : kLeast;
  return std::min(waiting, std::max(fit, kLeast));
}

absl::Status ChunkEncoder::RunSome(const ops::ExecutionContext& context,
                                   absl::Span<FrameRequest* const> requests,
                                   std::vector<Tensor>& outputs) {
  const EncoderPart& encoder = *parts_.encoder();
  ops::Shape shape = encoder.source_info().shape.dims();
  shape[0] = static_cast<int64_t>(requests.size());
  Tensor chunks(ops::DType::kF32, std::move(shape));
  const int64_t size = chunks.num_elements() / chunks.dim(0);
  std::vector<const StreamStates*> states;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i]->chunks->CopyChunk(chunks.mutable_data<float>() + static_cast<int64_t>(i) * size);
    states.push_back(&requests[i]->chunks->states());
  }
  return RunChunks(context, encoder, std::move(chunks), states, workspace_, outputs);
}

absl::Status ChunkEncoder::Run(const ops::ExecutionContext& context,
                               absl::Span<FrameRequest* const> requests) {
  const absl::Time begin = SteadyNow();
  BW_RETURN_IF_ERROR(FaultPoint("engine.encode"));
  num_sources_ = requests.size();
  const bool together = parts_.encoder()->apart.empty();
  outputs_.resize(together ? 1 : requests.size());
  const size_t each = together ? requests.size() : 1;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    BW_RETURN_IF_ERROR(RunSome(context, requests.subspan(i * each, each), outputs_[i]));
  }
  per_source_ = (SteadyNow() - begin) / static_cast<int64_t>(requests.size());
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ChunkEncoder::Advance(size_t i, ChunkedSource& source) const {
  const EncoderPart& encoder = *parts_.encoder();
  const FramesPart& frames = *parts_.frames;
  const bool together = outputs_.size() == 1;
  const std::vector<Tensor>& outputs = outputs_[together ? 0 : i];
  const auto count = static_cast<int64_t>(together ? num_sources_ : 1);
  const auto row = static_cast<int64_t>(together ? i : 0);
  BW_ASSIGN_OR_RETURN(StreamStates states,
                      NextStates(encoder, outputs, count, row, source.TakeStates()));
  const bool is_ctc = frames.ctc.has_value();
  const int result = is_ctc ? frames.ctc->result : frames.transducer->encoder_output;
  BW_ASSIGN_OR_RETURN(Tensor output, ResultOfSource(encoder, outputs, count, row, result,
                                                    is_ctc ? "ctc" : "transducer"));
  const bool width_first = !is_ctc && frames.transducer->frame_axis == 2;
  const int64_t width = is_ctc ? frames.num_columns : frames.frame_width;
  if (output.dtype() != ops::DType::kF32 || output.rank() != 3 ||
      output.num_elements() != frames.chunk_frames * width ||
      output.dim(width_first ? 1 : 2) != width) {
    return absl::InternalError(absl::StrCat("of a chunk come frames ", ops::Name(output.dtype()),
                                            ops::ToString(output.shape()), "; they must be f32, ",
                                            frames.chunk_frames, " frames of ", width, " values"));
  }
  source.Advance(std::move(states));
  return width_first ? FramesFirst(output) : output.Reshaped({1, frames.chunk_frames, width});
}

}  // namespace beamwright::engine
