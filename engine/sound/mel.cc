#include "engine/sound/mel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

namespace beamwright::sound {
namespace {

float KaldiMel(float frequency) { return 1127.0F * std::log(1.0F + frequency / 700.0F); }

// Slaney's scale: 3 mel for 200 Hz, and from 1 kHz on 27 mel for a factor of 6.4.
constexpr double kSlaneyHz = 200.0 / 3;
constexpr double kSlaneyBend = 1000;
const double kSlaneyStep = std::log(6.4) / 27;

double ToMel(double hertz, bool is_slaney) {
  if (!is_slaney) {
    return 2595 * std::log10(1 + hertz / 700);
  }
  return hertz < kSlaneyBend
             ? hertz / kSlaneyHz
             : kSlaneyBend / kSlaneyHz + std::log(hertz / kSlaneyBend) / kSlaneyStep;
}

double ToHertz(double mel, bool is_slaney) {
  if (!is_slaney) {
    return 700 * (std::pow(10, mel / 2595) - 1);
  }
  const double bend = kSlaneyBend / kSlaneyHz;
  return mel < bend ? mel * kSlaneyHz : kSlaneyBend * std::exp(kSlaneyStep * (mel - bend));
}

void AddWeight(int line, float weight, MelBin& bin) {
  bin.first = bin.weights.empty() ? line : bin.first;
  bin.weights.push_back(weight);
}

}  // namespace

// In single precision as Kaldi's: the difference to exact weights is larger than 1e-4.
std::vector<MelBin> KaldiBins(const MelOptions& options) {
  const float line_width =
      static_cast<float>(options.sample_rate) / static_cast<float>(options.fft_size);
  const float mel_low = KaldiMel(options.low);
  const float mel_width =
      (KaldiMel(options.high) - mel_low) / static_cast<float>(options.num_bins + 1);
  std::vector<MelBin> bins;
  for (int number = 0; number < options.num_bins; ++number) {
    MelBin bin;
    const float left = mel_low + static_cast<float>(number) * mel_width;
    const float center = mel_low + static_cast<float>(number + 1) * mel_width;
    const float right = mel_low + static_cast<float>(number + 2) * mel_width;
    for (int line = 0; line < options.fft_size / 2; ++line) {
      const float at = KaldiMel(line_width * static_cast<float>(line));
      if (at > left && at < right) {
        AddWeight(line,
                  at <= center ? (at - left) / (center - left) : (right - at) / (right - center),
                  bin);
      }
    }
    bins.push_back(std::move(bin));
  }
  return bins;
}

std::vector<MelBin> TriangleBins(const MelOptions& options, bool is_slaney) {
  const double mel_low = ToMel(options.low, is_slaney);
  const double mel_width =
      (ToMel(options.high, is_slaney) - mel_low) / static_cast<double>(options.num_bins + 1);
  const auto point = [&](int number) { return ToHertz(mel_low + number * mel_width, is_slaney); };
  std::vector<MelBin> bins;
  for (int number = 0; number < options.num_bins; ++number) {
    MelBin bin;
    const double left = point(number);
    const double center = point(number + 1);
    const double right = point(number + 2);
    const double height = is_slaney ? 2 / (right - left) : 1;
    for (int line = 0; line <= options.fft_size / 2; ++line) {
      const double at = static_cast<double>(line) * options.sample_rate / options.fft_size;
      const double weight =
          std::min((at - left) / (center - left), (right - at) / (right - center));
      if (weight > 0) {
        AddWeight(line, static_cast<float>(height * weight), bin);
      }
    }
    bins.push_back(std::move(bin));
  }
  return bins;
}

std::vector<double> MakeWindow(Window window, int length, bool is_periodic) {
  const double angle = 2 * std::numbers::pi / (is_periodic ? length : std::max(length - 1, 1));
  std::vector<double> values;
  for (int i = 0; i < length; ++i) {
    const double hann = 0.5 - 0.5 * std::cos(angle * i);
    values.push_back(window == Window::kPovey     ? std::pow(hann, 0.85)
                     : window == Window::kHamming ? 0.54 - 0.46 * std::cos(angle * i)
                                                  : hann);
  }
  return values;
}

}  // namespace beamwright::sound
