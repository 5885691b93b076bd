// Sound as clients send it: whatever its format, samples, rate and pieces. What comes of it does
// not depend on the pieces and has as many frames as the sound is long; a piece that is refused
// leaves no trace.
//
// An input is a head of eight bytes (Head) and the sound.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/sound/sound_stream.h"
#include "ops/base/check.h"

namespace beamwright::sound {
namespace {

constexpr int kModelRates[] = {8000, 16000, 22050, 44100, 48000, 1000};
constexpr size_t kMostSamplesOfAPiece = 700;

struct Head {
  // Of the features: 1 snip_edges, 2 integer_scale, 8 to 32 the kind, 64 stacked, 128 MFCC; 4: the
  // format says no rate.
  uint8_t flags;
  uint8_t samples;   // v1::SampleFormat
  uint16_t rate;     // of the sound, in units of 25 Hz
  uint8_t odd;       // 255: the rate is 7 Hz more
  uint8_t model;     // which of kModelRates
  uint8_t num_bins;  // of the features, less 3
  uint8_t seed;      // of the pieces
};
static_assert(sizeof(Head) == 8);

absl::StatusOr<Format> FormatOf(const Head& head) {
  v1::AudioFormat format;
  format.set_samples(static_cast<v1::SampleFormat>(head.samples));
  if ((head.flags & 4) == 0) {
    format.set_sample_rate(head.rate * 25 + (head.odd == 255 ? 7 : 0));
  }
  return ReadFormat(format);
}

absl::StatusOr<std::shared_ptr<const FrontEnd>> FrontEndOf(const Head& head) {
  v1::SoundConfig config;
  const int kind = (head.flags >> 3) % v1::SoundKind_ARRAYSIZE;
  config.set_kind(static_cast<v1::SoundKind>(kind));
  config.set_sample_rate(kModelRates[head.model % std::size(kModelRates)]);
  config.set_integer_scale((head.flags & 2) != 0);
  if (kind != v1::SOUND_KIND_SAMPLES) {
    config.set_num_bins(3 + head.num_bins);
    config.set_stack((head.flags & 64) != 0 ? 7 : 0);
    config.set_stack_shift((head.flags & 64) != 0 ? 6 : 0);
    config.set_num_coefficients((head.flags & 128) != 0 ? 3 : 0);
  }
  config.set_snip_edges(kind == v1::SOUND_KIND_KALDI && (head.flags & 1) != 0);
  if (kind == v1::SOUND_KIND_WHISPER) {
    config.set_pad_ms(50);
  }
  return FrontEnd::Create(config);
}

bool AreSame(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Whole samples, each a number of at most 2^31; what is not of them is refused.
std::string Mend(const Format& format, absl::string_view bytes) {
  const auto width = static_cast<size_t>(format.sample_bytes());
  std::vector<float> samples;
  if (bytes.size() % width != 0) {
    BW_CHECK(!ReadSamples(format, bytes, samples).ok());
    bytes.remove_suffix(bytes.size() % width);
  }
  std::string whole(bytes);
  bool is_allowed = true;
  for (size_t at = 0; format.is_f32 && at < whole.size(); at += width) {
    float sample = 0;
    std::memcpy(&sample, whole.data() + at, width);
    if (std::isnan(sample) || std::abs(sample) > 2147483648.0F) {
      is_allowed = false;
      std::memset(whole.data() + at, 0, width);
    }
  }
  BW_CHECK(ReadSamples(format, bytes, samples).ok() == is_allowed);
  BW_CHECK(samples.size() == (is_allowed ? bytes.size() / width : 0));
  return whole;
}

// The same in pieces, with others between them that are half a sample too long.
std::vector<float> InPieces(const std::shared_ptr<const FrontEnd>& front_end, const Format& format,
                            absl::string_view sound, uint32_t seed) {
  const auto width = static_cast<size_t>(format.sample_bytes());
  std::mt19937 random(seed);
  SoundStream stream(front_end, format);
  std::vector<float> features;
  while (!sound.empty()) {
    const size_t size = std::min(sound.size(), width * (random() % kMostSamplesOfAPiece));
    if (random() % 8 == 0 && size < sound.size()) {
      const size_t before = features.size();
      BW_CHECK(!stream.Add(sound.substr(0, size + 1), features).ok());
      BW_CHECK(features.size() == before);
    }
    BW_CHECK(stream.Add(sound.substr(0, size), features).ok());
    sound.remove_prefix(size);
  }
  stream.Finish(features);
  return features;
}

void Hear(const Head& head, absl::string_view bytes) {
  const absl::StatusOr<Format> format = FormatOf(head);
  const auto front_end = FrontEndOf(head);
  if (!format.ok() || !front_end.ok()) {
    return;
  }
  const std::string sound = Mend(*format, bytes);
  SoundStream stream(*front_end, *format);
  std::vector<float> features;
  BW_CHECK(stream.Add(sound, features).ok());
  stream.Finish(features);

  const auto num_samples =
      static_cast<int64_t>(sound.size() / static_cast<size_t>(format->sample_bytes()));
  const int64_t own_rate = (*front_end)->sample_rate();
  const int64_t resampled =
      (num_samples * own_rate + format->sample_rate - 1) / format->sample_rate;
  std::vector<float> completed = features;
  (*front_end)->Complete(completed);
  BW_CHECK(completed.size() == static_cast<size_t>((*front_end)->NumFrames(resampled)) *
                                   static_cast<size_t>((*front_end)->width()));
  std::vector<float> samples;
  BW_CHECK(ReadSamples(*format, sound, samples).ok());
  if (std::all_of(samples.begin(), samples.end(), [](float s) { return std::abs(s) <= 1; })) {
    BW_CHECK(
        std::all_of(features.begin(), features.end(), [](float f) { return std::isfinite(f); }));
  }
  BW_CHECK(AreSame(features, InPieces(*front_end, *format, sound, head.seed)));
}

}  // namespace
}  // namespace beamwright::sound

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  beamwright::sound::Head head;
  if (size < sizeof(head)) {
    return 0;
  }
  std::memcpy(&head, data, sizeof(head));
  beamwright::sound::Hear(
      head, absl::string_view(reinterpret_cast<const char*>(data), size).substr(sizeof(head)));
  return 0;
}
