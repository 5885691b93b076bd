#include "engine/sound/fbank.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "ops/base/status.h"

namespace beamwright::sound {
namespace {

constexpr float kPreemphasis = 0.97F;
constexpr float kFloor = 1.1920928955078125e-07F;  // 2^-23
constexpr float kIntegerScale = 32768;

float Mel(float frequency) { return 1127.0F * std::log(1.0F + frequency / 700.0F); }

std::vector<float> PoveyWindow(int length) {
  const double angle = 2 * std::numbers::pi / (length - 1);
  std::vector<float> window;
  for (int i = 0; i < length; ++i) {
    const double hann = 0.5 - 0.5 * std::cos(angle * i);
    window.push_back(static_cast<float>(std::pow(hann, 0.85)));
  }
  return window;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Fbank>> Fbank::Create(const FbankOptions& options) {
  if (options.sample_rate < 1000 || options.sample_rate > 48000) {
    return Invalid("sample_rate: ", options.sample_rate, " is outside [1000, 48000]");
  }
  if (options.num_bins < 3 || options.num_bins > 256) {
    return Invalid("num_bins: ", options.num_bins, " is outside [3, 256]");
  }
  const float nyquist = 0.5F * static_cast<float>(options.sample_rate);
  const float low = options.low_frequency;
  const float high =
      options.high_frequency > 0 ? options.high_frequency : nyquist + options.high_frequency;
  if (!(low >= 0 && low < high && high <= nyquist)) {
    return Invalid("low_frequency: mel bins from ", low, " to ", high, " Hz do not lie within [0, ",
                   nyquist, "], half the sample rate");
  }
  std::shared_ptr<Fbank> fbank(new Fbank(options));
  fbank->frame_shift_ = options.sample_rate * kFrameShiftMs / 1000;
  const int length = options.sample_rate / 40;
  fbank->window_ = PoveyWindow(length);
  int fft_size = 1;
  while (fft_size < length) {
    fft_size *= 2;
  }
  fbank->spectrum_.emplace(fft_size);
  // In single precision as Kaldi's: the difference to exact weights is larger than 1e-4.
  const float line_width = static_cast<float>(options.sample_rate) / static_cast<float>(fft_size);
  const float mel_low = Mel(low);
  const float mel_width = (Mel(high) - mel_low) / static_cast<float>(options.num_bins + 1);
  for (int number = 0; number < options.num_bins; ++number) {
    Bin bin;
    const float left = mel_low + static_cast<float>(number) * mel_width;
    const float center = mel_low + static_cast<float>(number + 1) * mel_width;
    const float right = mel_low + static_cast<float>(number + 2) * mel_width;
    for (int line = 0; line < fft_size / 2; ++line) {
      const float at = Mel(line_width * static_cast<float>(line));
      if (at > left && at < right) {
        bin.first = bin.weights.empty() ? line : bin.first;
        bin.weights.push_back(at <= center ? (at - left) / (center - left)
                                           : (right - at) / (right - center));
      }
    }
    if (bin.weights.empty()) {
      return Invalid("num_bins: ", options.num_bins, " are too many: bin ", number,
                     " holds no line of the spectrum");
    }
    fbank->bins_.push_back(std::move(bin));
  }
  return fbank;
}

int64_t Fbank::FirstSample(int64_t frame) const {
  return options_.snip_edges ? frame * frame_shift_
                             : frame * frame_shift_ + frame_shift_ / 2 - frame_length() / 2;
}

int64_t Fbank::NumFrames(int64_t num_samples) const {
  if (!options_.snip_edges) {
    return (num_samples + frame_shift_ / 2) / frame_shift_;
  }
  return num_samples < frame_length() ? 0 : 1 + (num_samples - frame_length()) / frame_shift_;
}

void Fbank::Compute(absl::Span<float> frame, absl::Span<float> power,
                    std::vector<float>& features) const {
  const absl::Span<float> samples = frame.first(window_.size());
  float sum = 0;
  for (const float sample : samples) {
    sum += sample;
  }
  const float mean = sum / static_cast<float>(samples.size());
  for (float& sample : samples) {
    sample -= mean;
  }
  for (size_t i = samples.size(); i-- > 0;) {
    const float before = samples[i == 0 ? 0 : i - 1];
    samples[i] = (samples[i] - kPreemphasis * before) * window_[i];
  }
  spectrum_->Compute(frame, power);
  for (const Bin& bin : bins_) {
    float energy = 0;
    for (size_t i = 0; i < bin.weights.size(); ++i) {
      energy += bin.weights[i] * power[static_cast<size_t>(bin.first) + i];
    }
    features.push_back(std::log(std::max(energy, kFloor)));
  }
}

void FbankStream::ComputeUntil(int64_t end, std::vector<float>& features) {
  const auto length = static_cast<int64_t>(fbank_->frame_length());
  const auto size = static_cast<size_t>(num_frames_ < end ? fbank_->spectrum_->size() : 0);
  std::vector<float> frame(size);  // zeros behind its samples
  std::vector<float> power(size / 2);
  for (; num_frames_ < end; ++num_frames_) {
    const int64_t first = fbank_->FirstSample(num_frames_);
    for (int64_t i = 0; i < length; ++i) {
      // Mirrored at both ends, as often as it takes: -1 is 0, and num_samples_ the one before it.
      int64_t at = first + i;
      while (at < 0 || at >= num_samples_) {
        at = at < 0 ? -at - 1 : 2 * num_samples_ - 1 - at;
      }
      frame[static_cast<size_t>(i)] = samples_[static_cast<size_t>(at - first_sample_)];
    }
    fbank_->Compute(absl::MakeSpan(frame), absl::MakeSpan(power), features);
  }
  // The last frames of a source may be mirrored to what lies a frame before its end.
  const int64_t needed =
      std::clamp<int64_t>(fbank_->FirstSample(num_frames_) - length, first_sample_, num_samples_);
  samples_.erase(samples_.begin(),
                 samples_.begin() + static_cast<std::ptrdiff_t>(needed - first_sample_));
  first_sample_ = needed;
}

void FbankStream::Add(absl::Span<const float> samples, std::vector<float>& features) {
  const float scale = fbank_->options().integer_scale ? kIntegerScale : 1;
  for (const float sample : samples) {
    samples_.push_back(scale * sample);
  }
  num_samples_ += static_cast<int64_t>(samples.size());
  int64_t end = num_frames_;
  while (fbank_->FirstSample(end) + fbank_->frame_length() <= num_samples_) {
    ++end;
  }
  ComputeUntil(end, features);
}

void FbankStream::Finish(std::vector<float>& features) {
  ComputeUntil(fbank_->NumFrames(num_samples_), features);
}

}  // namespace beamwright::sound
