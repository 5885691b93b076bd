#include "engine/model/compile_sound.h"

#include <utility>

#include "engine/model/model_inputs.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

// Whether the encoder's source can have the front end's shape: f32 [1, frames, width], [1, width,
// frames] or [1, samples].
bool Fits(const sound::FrontEnd& sound, const EncoderPart& encoder) {
  if (encoder.streaming.has_value()) {
    return encoder.streaming->width == sound.width() && !sound.is_samples();
  }
  const ops::ValueInfo& info = encoder.source_info();
  const int rank = sound.is_samples() ? 2 : 3;
  if (info.dtype != ops::DType::kF32 || !info.shape.has_rank() || info.shape.rank() != rank ||
      encoder.length_axis >= rank) {
    return false;
  }
  const int64_t width = rank == 2 ? sound.width() : info.shape.dim(3 - encoder.length_axis);
  return width == ops::PartialShape::kDynamic || width == sound.width();
}

// Frames that the encoder makes of a source of zeros, of `length` positions; -1: it fails.
int64_t FramesOf(const DecodeModel::Parts& parts, int64_t length) {
  const EncoderPart& encoder = *parts.encoder();
  const int64_t width = parts.sound->width();
  const ops::Shape shape = parts.sound->is_samples()  ? ops::Shape{1, length}
                           : encoder.length_axis == 1 ? ops::Shape{1, length, width}
                                                      : ops::Shape{1, width, length};
  std::vector<ops::Tensor> further;
  for (const FurtherInput& input : encoder.further_inputs) {
    absl::StatusOr<ops::Tensor> constant = ConstantInput(encoder, input, length);
    if (!input.has_constant || !constant.ok()) {
      return -1;
    }
    further.push_back(*std::move(constant));
  }
  const auto inputs = EncoderInputs(encoder, ops::Tensor::Zeros(ops::DType::kF32, shape), further);
  std::vector<ops::Tensor> outputs;
  if (!encoder.source_info().shape.Accepts(shape) || !inputs.ok() ||
      !encoder.model->Run(ops::ExecutionContext(), *inputs, outputs).ok()) {
    return -1;
  }
  const FramesPart& frames = *parts.frames;
  const bool is_ctc = frames.ctc.has_value();
  const ops::Tensor& result =
      outputs[static_cast<size_t>(is_ctc ? frames.ctc->result : frames.transducer->encoder_output)];
  // Of CTC scores [frames, 1, columns] the first axis counts frames.
  const bool is_first = is_ctc && (result.rank() < 3 || result.dim(0) != 1);
  const int axis = is_ctc ? (is_first ? 0 : 1) : frames.transducer->frame_axis;
  return axis < result.rank() ? result.dim(axis) : -1;
}

}  // namespace

float FrameMsOf(const DecodeModel::Parts& parts) {
  const double own = parts.sound->frame_ms();
  if (parts.chunk_encoder() != nullptr) {
    // A run advances by `shift` features and gives chunk_frames frames.
    return static_cast<float>(own * static_cast<double>(parts.encoder()->streaming->shift) /
                              static_cast<double>(parts.frames->chunk_frames));
  }
  // Encoders leave one frame of 1, 2, 3, 4, 6 or 8, of samples one of 320.
  const int64_t step = parts.sound->is_samples() ? 96 * 160 : 96;
  const int64_t once = FramesOf(parts, step);
  const int64_t twice = once < 0 ? -1 : FramesOf(parts, 2 * step);
  if (once >= twice || step % (twice - once) != 0) {
    return 0;
  }
  return static_cast<float>(own * static_cast<double>(step / (twice - once)));
}

absl::StatusOr<std::shared_ptr<const sound::FrontEnd>> CompileSound(const v1::ModelConfig& config,
                                                                    const std::string& cmvn,
                                                                    const EncoderPart* encoder) {
  if (!config.has_sound()) {
    return nullptr;
  }
  if (encoder == nullptr) {
    return status::InvalidField("sound", "the model has no encoder to read features of sound");
  }
  sound::Cmvn parsed;
  if (!config.sound().cmvn().empty()) {
    absl::StatusOr<sound::Cmvn> read = sound::ParseCmvn(cmvn);
    if (!read.ok()) {
      return status::InvalidField("sound.cmvn", "'", config.sound().cmvn(), "' ",
                                  read.status().message());
    }
    parsed = *std::move(read);
  }
  auto made = sound::FrontEnd::Create(config.sound(), std::move(parsed));
  if (!made.ok()) {
    return Annotate(made.status(), "sound");
  }
  const sound::FrontEnd& sound = **made;
  const ops::ValueInfo& info = encoder->source_info();
  if (!Fits(sound, *encoder)) {
    const std::string shape = sound.is_samples() ? "[1, samples]"
                              : encoder->length_axis == 2
                                  ? absl::StrCat("[1, ", sound.width(), ", frames]")
                                  : absl::StrCat("[1, frames, ", sound.width(), "]");
    return status::InvalidField("sound", "the encoder reads ", ops::Name(info.dtype),
                                info.shape.ToString(), "; features of sound are f32 ", shape);
  }
  if (encoder->streaming.has_value() && sound.needs_whole_source()) {
    return status::InvalidField(
        "sound",
        "the encoder reads chunk by chunk, but these features need the whole source (normalize, "
        "pad_ms, stack, cmvn, or a limit below the loudest)");
  }
  return *std::move(made);
}

}  // namespace beamwright::engine
