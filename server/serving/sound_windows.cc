#include "server/serving/sound_windows.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/base/status.h"

namespace beamwright::serving {
namespace {

constexpr double kSilence = 1e-7;  // power of -70 dB at full scale 1
constexpr int kFramesASecond = 50;
constexpr size_t kPauseFrames = 10;  // a fifth of a second

// Samples of a frame.
size_t FrameOf(const sound::Format& format) {
  return static_cast<size_t>(std::max(format.sample_rate / kFramesASecond, 1));
}

// The mean power of each whole frame of a fiftieth of a second.
std::vector<double> PowersOf(const std::vector<float>& samples, size_t frame) {
  std::vector<double> powers;
  for (size_t begin = 0; begin + frame <= samples.size(); begin += frame) {
    double sum = 0;
    for (size_t i = begin; i < begin + frame; ++i) {
      sum += static_cast<double>(samples[i]) * static_cast<double>(samples[i]);
    }
    powers.push_back(sum / static_cast<double>(frame));
  }
  return powers;
}

}  // namespace

SoundWindows::SoundWindows(const sound::Format& format, int window_ms)
    : format_(format),
      most_samples_(static_cast<size_t>(int64_t{window_ms} * format.sample_rate / 1000)) {}

absl::Status SoundWindows::Add(absl::string_view bytes) {
  std::vector<float> samples;
  BW_RETURN_IF_ERROR(sound::ReadSamples(format_, bytes, samples));
  bytes_.append(bytes.data(), bytes.size());
  return absl::OkStatus();
}

size_t SoundWindows::CutOf(const std::vector<float>& samples) const {
  const size_t frame = FrameOf(format_);
  const std::vector<double> powers = PowersOf(samples, frame);
  size_t cut = powers.size();
  double least = std::numeric_limits<double>::infinity();
  for (size_t first = powers.size() * 3 / 5; first + kPauseFrames <= powers.size(); ++first) {
    const double* const begin = powers.data() + first;
    const double power = std::accumulate(begin, begin + kPauseFrames, 0.0);
    if (power <= least) {
      cut = first + kPauseFrames / 2;
      least = power;
    }
  }
  return std::max<size_t>(cut * frame, 1);
}

std::optional<SoundWindows::Window> SoundWindows::Next() {
  const auto width = static_cast<size_t>(format_.sample_bytes());
  const size_t num_samples = bytes_.size() / width;
  const bool is_cut = num_samples > most_samples_;
  if (num_samples == 0 || (!is_cut && !is_complete_)) {
    return std::nullopt;
  }
  std::vector<float> samples;
  const absl::string_view bytes(bytes_);
  // They were read before.
  sound::ReadSamples(format_, bytes.substr(0, std::min(num_samples, most_samples_) * width),
                     samples)
      .IgnoreError();
  if (is_cut) {
    samples.resize(CutOf(samples));
  }
  const std::vector<double> powers = PowersOf(samples, FrameOf(format_));
  Window window;
  window.is_silent =
      std::all_of(powers.begin(), powers.end(), [](double power) { return power < kSilence; });
  const auto ms = [&](size_t sample) {
    return 1000.0 * static_cast<double>(sample) / format_.sample_rate;
  };
  window.begin_ms = ms(first_sample_);
  first_sample_ += samples.size();
  window.end_ms = ms(first_sample_);
  window.bytes = bytes_.substr(0, samples.size() * width);
  bytes_.erase(0, window.bytes.size());
  return window;
}

}  // namespace beamwright::serving
