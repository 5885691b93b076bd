// From the bytes of a sound, whole or in pieces, to the features of a model: samples (ReadSamples),
// the model's sample rate (the resampler), features (the front end). Samples of 32 bits may hold
// anything: NaN, and numbers that would overflow the power of a window, are refused with their
// place.
#include "engine/sound/sound_stream.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::sound {
namespace {

static_assert(std::endian::native == std::endian::little);

template <typename Sample>
Sample SampleAt(absl::string_view bytes, size_t number) {
  Sample sample;
  std::memcpy(&sample, bytes.data() + number * sizeof(Sample), sizeof(Sample));
  return sample;
}

}  // namespace

absl::StatusOr<Format> ReadFormat(const v1::AudioFormat& format) {
  status::Faults faults;
  bundle::CheckRules(format, "format", faults);
  Format read;
  read.is_f32 = format.samples() == v1::SAMPLE_FORMAT_F32;
  if (format.has_sample_rate()) {
    read.sample_rate = format.sample_rate();
  }
  BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
  return read;
}

absl::Status ReadSamples(const Format& format, absl::string_view bytes,
                         std::vector<float>& samples) {
  const auto width = static_cast<size_t>(format.sample_bytes());
  if (bytes.size() % width != 0) {
    return Invalid(bytes.size(), " bytes are not whole samples of ", width, " bytes");
  }
  const size_t before = samples.size();
  for (size_t i = 0; i < bytes.size() / width; ++i) {
    if (!format.is_f32) {
      constexpr float kFullScale = 32768;
      samples.push_back(static_cast<float>(SampleAt<int16_t>(bytes, i)) / kFullScale);
      continue;
    }
    const auto sample = SampleAt<float>(bytes, i);
    // NaN is refused as well. Louder samples could overflow the power spectrum of a window.
    constexpr float kLoudest = 2147483648.0F;
    if (!(std::abs(sample) <= kLoudest)) {
      samples.resize(before);
      return Invalid("sample ", i, " is ", sample, "; at most +-2147483648 is allowed");
    }
    samples.push_back(sample);
  }
  return absl::OkStatus();
}

absl::Status SoundStream::Add(absl::string_view bytes, std::vector<float>& features) {
  std::vector<float> samples;
  BW_RETURN_IF_ERROR(ReadSamples(format_, bytes, samples));
  std::vector<float> resampled;
  resampler_.Add(samples, resampled);
  features_.Add(resampled, features);
  return absl::OkStatus();
}

void SoundStream::Finish(std::vector<float>& features) {
  std::vector<float> resampled;
  resampler_.Finish(resampled);
  features_.Add(resampled, features);
  features_.Finish(features);
}

}  // namespace beamwright::sound
