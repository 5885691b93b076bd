// Spectra and mel filters, in the conventions of the toolkits whose models are served.
//
// 1. KaldiBins: Kaldi's mel filters in single precision, triangles on the mel axis. TriangleBins:
//    HTK's or Slaney's scale with triangles on the axis of hertz, as librosa and Whisper have them.
//    A MelBin is the first line of the spectrum and the weights from there on.
// 2. MakeWindow: Povey, Hamming or Hann, periodic or symmetric.
// 3. FourierTransform: any size, by prime factors, in double precision.
// 4. PowerSpectrum: sizes that are a power of two, in single precision. A real signal of n values
//    is a complex one of n / 2: transforms of every fourth value are joined four by four (JoinFour,
//    radix 4), and Compute separates even and odd parts at the end. The order of its additions is
//    that of the toolkit's transform, so that features have its bits; no expression here may be
//    reordered.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/sound/front_end.h"
#include "ops/base/status.h"

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

constexpr double kPi = std::numbers::pi;

}  // namespace

// In single precision like Kaldi: exact weights would differ from Kaldi's by more than 1e-4.
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

FourierTransform::FourierTransform(int size) : size_(size) {
  int rest = size;
  for (int prime = 2; rest > 1; ++prime) {
    for (; rest % prime == 0; rest /= prime) {
      factors_.push_back(prime);
    }
  }
  for (int k = 0; k < size; ++k) {
    const double angle = -2 * std::numbers::pi * k / size;
    turns_.emplace_back(std::cos(angle), std::sin(angle));
  }
}

// Decimation in time (J. Cooley, J. Tukey, An Algorithm for the Machine Calculation of Complex
// Fourier Series): `parts` transforms of every parts-th value, and then each line of the whole from
// one line of each of them.
void FourierTransform::Transform(const double* signal, int size, int stride, size_t factor,
                                 Complex* result) const {
  if (size == 1) {
    result[0] = signal[0];
    return;
  }
  const int parts = factors_[factor];
  const int length = size / parts;
  for (int part = 0; part < parts; ++part) {
    Transform(signal + static_cast<std::ptrdiff_t>(part) * stride, length, stride * parts,
              factor + 1, result + static_cast<std::ptrdiff_t>(part) * length);
  }
  std::vector<Complex> lines(static_cast<size_t>(parts));
  for (int line = 0; line < length; ++line) {
    for (int part = 0; part < parts; ++part) {
      lines[static_cast<size_t>(part)] = result[part * length + line];
    }
    for (int block = 0; block < parts; ++block) {
      const int64_t at = line + static_cast<int64_t>(block) * length;
      Complex sum = lines[0];
      for (int part = 1; part < parts; ++part) {
        sum += lines[static_cast<size_t>(part)] *
               turns_[static_cast<size_t>(at * part % size * stride)];
      }
      result[at] = sum;
    }
  }
}

void FourierTransform::Power(absl::Span<const double> signal, absl::Span<double> power) const {
  std::vector<Complex> lines(static_cast<size_t>(size_));
  Transform(signal.data(), size_, 1, 0, lines.data());
  for (size_t line = 0; line < power.size(); ++line) {
    power[line] = std::norm(lines[line]);
  }
}

void PowerSpectrum::Factors::Add(double angle) {
  re.push_back(static_cast<float>(std::cos(angle)));
  im.push_back(static_cast<float>(std::sin(angle)));
}

PowerSpectrum::PowerSpectrum(int size) : num_pairs_(size / 2), order_{0} {
  // Splits the signal into transforms of every fourth value, while there are four; a rest of two is
  // joined first.
  int stride = 1;
  const auto split = [&](int parts) {
    std::vector<int> order;
    for (const int first : order_) {
      for (int part = 0; part < parts; ++part) {
        order.push_back(first + part * stride);
      }
    }
    order_ = std::move(order);
    stride *= parts;
  };
  while (num_pairs_ / stride >= 4) {
    split(4);
    Stage stage;
    stage.length = num_pairs_ / stride;
    for (int j = 1; j <= 3; ++j) {
      for (int u = 0; u < stage.length; ++u) {
        stage.factors.Add(-2 * kPi * j * u / (4 * stage.length));
      }
    }
    stages_.insert(stages_.begin(), std::move(stage));
  }
  if (stride < num_pairs_) {
    begins_with_two_ = true;
    split(2);
  }
  for (int line = 1; line <= num_pairs_ / 2; ++line) {
    halves_.Add(-kPi * (static_cast<double>(line) / num_pairs_ + 0.5));
  }
}

// Sums of three are added in the order of the source text, which must not change.
void PowerSpectrum::JoinFour(const Stage& stage, int num_values, float* re, float* im) {
  const int length = stage.length;
  const float* const factor_re = stage.factors.re.data();
  const float* const factor_im = stage.factors.im.data();
  for (int first = 0; first < num_values; first += 4 * length) {
    float* __restrict const re0 = re + first;
    float* __restrict const im0 = im + first;
    float* __restrict const re1 = re0 + length;
    float* __restrict const im1 = im0 + length;
    float* __restrict const re2 = re1 + length;
    float* __restrict const im2 = im1 + length;
    float* __restrict const re3 = re2 + length;
    float* __restrict const im3 = im2 + length;
    for (int u = 0; u < length; ++u) {
      const float w1_re = factor_re[u];
      const float w1_im = factor_im[u];
      const float w2_re = factor_re[length + u];
      const float w2_im = factor_im[length + u];
      const float w3_re = factor_re[2 * length + u];
      const float w3_im = factor_im[2 * length + u];
      const float b_re = re1[u] * w1_re - im1[u] * w1_im;
      const float b_im = im1[u] * w1_re + re1[u] * w1_im;
      const float c_rr = re2[u] * w2_re;
      const float c_ii = im2[u] * w2_im;
      const float c_im = im2[u] * w2_re + re2[u] * w2_im;
      const float d_rr = re3[u] * w3_re;
      const float d_ii = im3[u] * w3_im;
      const float d_im = im3[u] * w3_re + re3[u] * w3_im;
      const float even_re = re0[u] + c_rr - c_ii;
      const float even_im = im0[u] + c_im;
      const float odd_re = re0[u] + c_ii - c_rr;
      const float odd_im = im0[u] - c_im;
      const float sum_re = b_re - d_ii + d_rr;
      const float sum_im = b_im + d_im;
      const float difference_re = b_re - d_rr + d_ii;
      re0[u] = even_re + sum_re;
      im0[u] = even_im + sum_im;
      re1[u] = odd_re + b_im - d_im;
      im1[u] = odd_im - difference_re;
      re2[u] = even_re - sum_re;
      im2[u] = even_im - sum_im;
      re3[u] = odd_re + d_im - b_im;
      im3[u] = odd_im + difference_re;
    }
  }
}

void PowerSpectrum::Compute(absl::Span<const float> signal, absl::Span<float> power) const {
  const auto count = static_cast<size_t>(num_pairs_);
  std::vector<float> values(2 * count);
  float* const re = values.data();
  float* const im = re + count;
  for (size_t i = 0; i < count; ++i) {
    const auto pair = 2 * static_cast<size_t>(order_[i]);
    re[i] = signal[pair];
    im[i] = signal[pair + 1];
  }
  if (begins_with_two_) {
    for (float* part : {re, im}) {
      for (size_t i = 0; i < count; i += 2) {
        const float first = part[i];
        part[i] = first + part[i + 1];
        part[i + 1] = first - part[i + 1];
      }
    }
  }
  for (const Stage& stage : stages_) {
    JoinFour(stage, num_pairs_, re, im);
  }
  power[0] = (re[0] + im[0]) * (re[0] + im[0]);
  for (size_t line = 1; line <= count / 2; ++line) {
    const size_t other = count - line;
    const float w_re = halves_.re[line - 1];
    const float w_im = halves_.im[line - 1];
    const float sum_re = re[line] + re[other];
    const float sum_im = im[line] - im[other];
    const float difference_re = re[line] - re[other];
    const float difference_im = im[line] + im[other];
    const float odd_rr = difference_re * w_re;
    const float odd_ii = difference_im * w_im;
    const float odd_im = difference_im * w_re + difference_re * w_im;
    const float line_re = 0.5F * (sum_re + odd_rr - odd_ii);
    const float line_im = 0.5F * (sum_im + odd_im);
    const float other_re = 0.5F * (sum_re + odd_ii - odd_rr);
    const float other_im = 0.5F * (odd_im - sum_im);
    power[line] = line_re * line_re + line_im * line_im;
    power[other] = other_re * other_re + other_im * other_im;
  }
}

// Normalizations of features that need all frames of a source, or all its samples: a floor below
// the largest value as Whisper has it (RaiseToRange), mean and deviation of each column as NeMo has
// it (NormalizeColumns), those of the samples as wav2vec 2.0 has it (NormalizeSamples). Sums are
// taken in double.
//
// Also here: stacking of neighbouring frames (StackFrames), in which the first and last frame are
// repeated at the ends, and mean and scale from a Kaldi file (ParseCmvn, ApplyCmvn).

namespace {

constexpr double kNemoEpsilon = 1e-5;
constexpr double kSampleEpsilon = 1e-7;

// The numbers between the first brackets behind `name`.
absl::StatusOr<std::vector<float>> NumbersBehind(absl::string_view text, absl::string_view name) {
  const size_t begin = text.find('[', std::min(text.find(name), text.size()));
  const size_t end = text.find(']', std::min(begin, text.size()));
  if (end == absl::string_view::npos) {
    return Invalid("has no ", name, " with numbers in brackets");
  }
  std::vector<float> numbers;
  const absl::string_view inside = text.substr(begin + 1, end - begin - 1);
  for (const absl::string_view word :
       absl::StrSplit(inside, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty())) {
    float number = 0;
    if (!absl::SimpleAtof(word, &number) || !std::isfinite(number)) {
      return Invalid(name, ": '", word, "' is not a number");
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

void RaiseToRange(float range, std::vector<float>& features) {
  if (range <= 0 || features.empty()) {
    return;
  }
  const float least = *std::max_element(features.begin(), features.end()) - range;
  for (float& feature : features) {
    feature = std::max(feature, least);
  }
}

void NormalizeColumns(size_t columns, std::vector<float>& features) {
  const size_t frames = features.size() / columns;
  for (size_t column = 0; column < columns; ++column) {
    double sum = 0;
    double squares = 0;
    for (size_t frame = 0; frame < frames; ++frame) {
      sum += features[frame * columns + column];
    }
    const double mean = sum / static_cast<double>(frames);
    for (size_t frame = 0; frame < frames; ++frame) {
      const double away = features[frame * columns + column] - mean;
      squares += away * away;
    }
    const double deviation = frames > 1 ? std::sqrt(squares / static_cast<double>(frames - 1)) : 0;
    for (size_t frame = 0; frame < frames; ++frame) {
      float& value = features[frame * columns + column];
      value = static_cast<float>((value - mean) / (deviation + kNemoEpsilon));
    }
  }
}

void NormalizeSamples(std::vector<float>& samples) {
  const auto count = static_cast<double>(samples.size());
  double sum = 0;
  double squares = 0;
  for (const float sample : samples) {
    sum += sample;
  }
  for (const float sample : samples) {
    squares += (sample - sum / count) * (sample - sum / count);
  }
  for (float& sample : samples) {
    sample =
        static_cast<float>((sample - sum / count) / std::sqrt(squares / count + kSampleEpsilon));
  }
}

void StackFrames(int columns, int stack, int shift, std::vector<float>& features) {
  if (stack == 1) {
    return;
  }
  const int64_t frames = static_cast<int64_t>(features.size()) / columns;
  std::vector<float> stacked;
  for (int64_t first = 0; first < frames; first += shift) {
    for (int64_t i = 0; i < stack; ++i) {
      const int64_t frame = std::clamp<int64_t>(first + i - (stack - 1) / 2, 0, frames - 1);
      const auto begin = features.begin() + frame * columns;
      stacked.insert(stacked.end(), begin, begin + columns);
    }
  }
  features = std::move(stacked);
}

absl::StatusOr<Cmvn> ParseCmvn(absl::string_view text) {
  Cmvn cmvn;
  BW_ASSIGN_OR_RETURN(cmvn.shift, NumbersBehind(text, "<AddShift>"));
  BW_ASSIGN_OR_RETURN(cmvn.scale, NumbersBehind(text, "<Rescale>"));
  if (cmvn.shift.empty() || cmvn.shift.size() != cmvn.scale.size()) {
    return Invalid("<AddShift> has ", cmvn.shift.size(), " numbers and <Rescale> ",
                   cmvn.scale.size());
  }
  return cmvn;
}

void ApplyCmvn(const Cmvn& cmvn, std::vector<float>& features) {
  const size_t columns = cmvn.shift.size();
  for (size_t i = 0; columns > 0 && i < features.size(); ++i) {
    features[i] = (features[i] + cmvn.shift[i % columns]) * cmvn.scale[i % columns];
  }
}

}  // namespace beamwright::sound
