#include "engine/request/sound_source.h"

#include "engine/sound/front_end.h"

namespace beamwright::engine {

ops::Tensor SoundSource(const DecodeModel& model, std::vector<float> features) {
  const sound::FrontEnd& sound = *model.parts().sound;
  const EncoderPart& encoder = *model.parts().encoder();
  sound.Complete(features);
  const int64_t width = sound.width();
  const auto frames = static_cast<int64_t>(features.size()) / width;
  if (sound.is_samples()) {
    return ops::Tensor::Of<float>({1, frames}, features);
  }
  if (encoder.length_axis == 1 || encoder.streaming.has_value()) {
    return ops::Tensor::Of<float>({1, frames, width}, features);
  }
  ops::Tensor turned(ops::DType::kF32, {1, width, frames});
  float* const data = turned.mutable_data<float>();
  for (int64_t frame = 0; frame < frames; ++frame) {
    for (int64_t i = 0; i < width; ++i) {
      data[i * frames + frame] = features[static_cast<size_t>(frame * width + i)];
    }
  }
  return turned;
}

}  // namespace beamwright::engine
