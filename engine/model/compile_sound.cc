#include "engine/model/compile_sound.h"

#include <utility>

#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {

absl::StatusOr<std::shared_ptr<const sound::Fbank>> CompileSound(const v1::ModelConfig& config,
                                                                 const EncoderPart* encoder) {
  if (!config.has_sound()) {
    return nullptr;
  }
  const v1::SoundConfig& given = config.sound();
  sound::FbankOptions options;
  options.sample_rate = given.sample_rate() > 0 ? given.sample_rate() : options.sample_rate;
  options.num_bins = given.num_bins() > 0 ? given.num_bins() : options.num_bins;
  options.low_frequency = given.has_low_frequency() ? given.low_frequency() : options.low_frequency;
  options.high_frequency =
      given.has_high_frequency() ? given.high_frequency() : options.high_frequency;
  options.integer_scale = given.integer_scale();
  options.snip_edges = given.snip_edges();
  if (encoder == nullptr) {
    return status::InvalidField("sound", "the model has no encoder to read features of sound");
  }
  const ops::ValueInfo& info = encoder->source_info();
  const bool fits = encoder->streaming.has_value()
                        ? encoder->streaming->width == options.num_bins
                        : info.dtype == ops::DType::kF32 && info.shape.has_rank() &&
                              info.shape.rank() == 3 && encoder->length_axis == 1 &&
                              (info.shape.dim(2) == ops::PartialShape::kDynamic ||
                               info.shape.dim(2) == options.num_bins);
  if (!fits) {
    return status::InvalidField("sound", "the encoder reads ", ops::Name(info.dtype),
                                info.shape.ToString(), "; features of sound are f32 [1, frames, ",
                                options.num_bins, "]");
  }
  auto fbank = sound::Fbank::Create(options);
  if (!fbank.ok()) {
    return Annotate(fbank.status(), "sound");
  }
  return *std::move(fbank);
}

}  // namespace beamwright::engine
