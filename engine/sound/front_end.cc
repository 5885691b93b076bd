// From samples to features:
//
//   1. FrontEndStream::Append scales a sample and applies the preemphasis of the whole sound.
//   2. ComputeUntil cuts frames at FirstSample; Place says which sample is read beyond the edges.
//   3. Compute: window, spectrum (KaldiPower or Power), mel bins, logarithm, cosine transform.
//   4. Complete, once the source is complete: what depends on all of it (the peak, mean and
//      deviation), then frames side by side and shift and scale.
//
// kRecipes has how the toolkits differ, a line for each; SetDefaults fills in what a bundle's
// `sound` leaves to them.
#include "engine/sound/front_end.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::sound {

enum class Padding { kMirror, kReflect, kZeros };  // -1 is sample 0, sample 1, zero
enum class Log { kFloor, kPlus, kTen, kDecibels };

struct Recipe {
  int num_bins;
  // Milliseconds, if below 0.
  int window_length;
  int window_shift;
  bool is_kaldi;
  bool is_periodic;  // the window
  Padding padding;
  bool drops_last;    // a source has one frame for each window_shift, without the one at its end
  float preemphasis;  // of the whole sound
  bool is_slaney;
  Log log;
  float offset;  // what is added to an energy, or its least value
  float range;   // below the source's peak, less is raised to it; 0: unbounded
};

namespace {

using Fields = v1::SoundConfig;

constexpr float kFramePreemphasis = 0.97F;
constexpr float kIntegerScale = 32768;
constexpr float kLifter = 22;
constexpr int kWhisperMs = 30000;

// By v1::SoundKind.
constexpr Recipe kRecipes[] = {
    {80, -25, -10, true, false, Padding::kMirror, false, 0, false, Log::kFloor, 0x1p-23F, 0},
    {80, -25, -10, false, false, Padding::kZeros, true, 0.97F, true, Log::kPlus, 0x1p-24F, 0},
    {80, 400, 160, false, true, Padding::kReflect, true, 0, true, Log::kTen, 1e-10F, 8},
    {128, 400, 200, false, true, Padding::kReflect, false, 0, false, Log::kPlus, 1e-6F, 0},
    {128, 2048, 512, false, true, Padding::kZeros, false, 0, true, Log::kDecibels, 1e-10F, 80},
    {1, 1, 1, false, false, Padding::kZeros, true, 0, false, Log::kFloor, 0, 0},
};
// torchaudio.transforms.MFCC, which takes decibels in the logarithm's place.
constexpr Recipe kTorchaudioMfcc = {128,   400, 200,   false,          true,   Padding::kReflect,
                                    false, 0,   false, Log::kDecibels, 1e-10F, 80};

int PowerOfTwo(int least) {
  int size = 4;
  while (size < least) {
    size *= 2;
  }
  return size;
}

// Sets what the config leaves to the kind.
void SetDefaults(const Recipe& recipe, Fields& config) {
  const int rate = config.sample_rate() > 0 ? config.sample_rate() : 16000;
  config.set_sample_rate(rate);
  const auto samples = [rate](int length) {
    return length > 0 ? length : static_cast<int>(int64_t{-length} * rate / 1000);
  };
  if (config.num_bins() == 0) {
    config.set_num_bins(recipe.num_bins);
  }
  if (!config.has_low_frequency()) {
    config.set_low_frequency(recipe.is_kaldi ? 20 : 0);
  }
  if (!config.has_high_frequency()) {
    config.set_high_frequency(recipe.is_kaldi ? -400 : 0);
  }
  if (config.window_length() == 0) {
    config.set_window_length(samples(recipe.window_length));
  }
  if (config.window_shift() == 0) {
    config.set_window_shift(samples(recipe.window_shift));
  }
  if (config.window() == v1::SOUND_WINDOW_DEFAULT) {
    config.set_window(recipe.is_kaldi ? v1::SOUND_WINDOW_POVEY : v1::SOUND_WINDOW_HANN);
  }
  if (config.fft_size() == 0) {
    const bool is_nemo = config.kind() == v1::SOUND_KIND_NEMO;
    config.set_fft_size(recipe.is_kaldi || is_nemo ? PowerOfTwo(config.window_length())
                                                   : config.window_length());
  }
  if (!config.has_normalize()) {
    config.set_normalize(config.kind() == v1::SOUND_KIND_NEMO ||
                         config.kind() == v1::SOUND_KIND_SAMPLES);
  }
  if (!config.has_pad_ms()) {
    config.set_pad_ms(config.kind() == v1::SOUND_KIND_WHISPER ? kWhisperMs : 0);
  }
  config.set_stack(std::max(config.stack(), 1));
  config.set_stack_shift(std::max(config.stack_shift(), 1));
}

// What a kind does not have, as the file gives it.
absl::Status CheckApplies(const Fields& given) {
  const v1::SoundKind kind = given.kind();
  const bool is_samples = kind == v1::SOUND_KIND_SAMPLES;
  const struct {
    const char* field;
    bool refused;
  } rules[] = {
      {"snip_edges", given.snip_edges() && kind != v1::SOUND_KIND_KALDI},
      {"fft_size", given.fft_size() > 0 && kind == v1::SOUND_KIND_KALDI},
      {"normalize", given.has_normalize() && kind != v1::SOUND_KIND_NEMO && !is_samples},
      {"num_bins", given.num_bins() > 0 && is_samples},
      {"window_length", given.window_length() > 0 && is_samples},
      {"window_shift", given.window_shift() > 0 && is_samples},
      {"num_coefficients", given.num_coefficients() > 0 && is_samples},
      {"stack", given.stack() > 0 && is_samples},
  };
  for (const auto& [field, refused] : rules) {
    if (refused) {
      return status::InvalidField(field, "does not apply to ", v1::SoundKind_Name(kind));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRange(const char* field, int64_t value, int64_t least, int64_t most) {
  return value >= least && value <= most
             ? absl::OkStatus()
             : Invalid(field, ": ", value, " is outside [", least, ", ", most, "]");
}

absl::Status CheckRanges(const Fields& config) {
  BW_RETURN_IF_ERROR(CheckRange("sample_rate", config.sample_rate(), 1000, 48000));
  if (config.kind() == v1::SOUND_KIND_SAMPLES) {
    return absl::OkStatus();
  }
  BW_RETURN_IF_ERROR(CheckRange("num_bins", config.num_bins(), 3, 256));
  BW_RETURN_IF_ERROR(CheckRange("window_length", config.window_length(), 2, 8192));
  BW_RETURN_IF_ERROR(CheckRange("window_shift", config.window_shift(), 1, 8192));
  BW_RETURN_IF_ERROR(CheckRange("fft_size", config.fft_size(), config.window_length(), 8192));
  BW_RETURN_IF_ERROR(
      CheckRange("num_coefficients", config.num_coefficients(), 0, config.num_bins()));
  return CheckRange("stack_shift", config.stack_shift(), 1, config.stack());
}

}  // namespace

absl::StatusOr<std::shared_ptr<const FrontEnd>> FrontEnd::Create(const Fields& config, Cmvn cmvn) {
  BW_RETURN_IF_ERROR(CheckApplies(config));
  const bool is_torchaudio_mfcc =
      config.kind() == v1::SOUND_KIND_TORCHAUDIO && config.num_coefficients() > 0;
  const Recipe& recipe =
      is_torchaudio_mfcc ? kTorchaudioMfcc : kRecipes[static_cast<size_t>(config.kind())];
  std::shared_ptr<FrontEnd> made(new FrontEnd(config, recipe, std::move(cmvn)));
  SetDefaults(recipe, made->config_);
  BW_RETURN_IF_ERROR(CheckRanges(made->config_));
  BW_RETURN_IF_ERROR(made->MakeTables());
  const size_t numbers = made->cmvn_.shift.size();
  if (numbers > 0 && numbers != static_cast<size_t>(made->width())) {
    return status::InvalidField("cmvn", "has ", numbers, " numbers; frames have ", made->width(),
                                " features");
  }
  return made;
}

// Everything that does not depend on the samples: the window, the triangles of the mel bins, and
// the matrix of the cosine transform, row by row. Kaldi's bins are cut at lines of the spectrum, so
// one of them may hold no line: then there are too many.
absl::Status FrontEnd::MakeTables() {
  num_values_ = config_.num_coefficients() > 0 ? config_.num_coefficients() : config_.num_bins();
  if (is_samples()) {
    return absl::OkStatus();
  }
  const float nyquist = 0.5F * static_cast<float>(config_.sample_rate());
  const float low = config_.low_frequency();
  const float high =
      config_.high_frequency() > 0 ? config_.high_frequency() : nyquist + config_.high_frequency();
  if (!(low >= 0 && low < high && high <= nyquist)) {
    return Invalid("low_frequency: mel bins from ", low, " to ", high, " Hz do not lie within [0, ",
                   nyquist, "], half the sample rate");
  }
  const Window window = config_.window() == v1::SOUND_WINDOW_POVEY     ? Window::kPovey
                        : config_.window() == v1::SOUND_WINDOW_HAMMING ? Window::kHamming
                                                                       : Window::kHann;
  for (const double value : MakeWindow(window, frame_length(), recipe_.is_periodic)) {
    window_.push_back(static_cast<float>(value));
  }
  const MelOptions mel = {config_.sample_rate(), config_.fft_size(), config_.num_bins(), low, high};
  const int bins = config_.num_bins();
  if (recipe_.is_kaldi) {
    kaldi_.emplace(config_.fft_size());
    bins_ = KaldiBins(mel);
    for (size_t i = 0; i < bins_.size(); ++i) {
      if (bins_[i].weights.empty()) {
        return Invalid("num_bins: ", bins, " are too many: bin ", i,
                       " holds no line of the spectrum");
      }
    }
  } else {
    fourier_.emplace(config_.fft_size());
    bins_ = TriangleBins(mel, recipe_.is_slaney);
  }
  for (int i = 0; i < config_.num_coefficients(); ++i) {
    const double pi = std::numbers::pi;
    const double lifter = recipe_.is_kaldi ? 1 + 0.5 * kLifter * std::sin(pi * i / kLifter) : 1;
    for (int bin = 0; bin < bins; ++bin) {
      cosines_.push_back(static_cast<float>(lifter * std::sqrt((i == 0 ? 1.0 : 2.0) / bins) *
                                            std::cos(pi * i * (bin + 0.5) / bins)));
    }
  }
  return absl::OkStatus();
}

double FrontEnd::frame_ms() const {
  return 1000.0 * config_.window_shift() * config_.stack_shift() / config_.sample_rate();
}

bool FrontEnd::needs_whole_source() const {
  return recipe_.range > 0 || config_.normalize() || config_.pad_ms() > 0 || config_.stack() > 1 ||
         !cmvn_.shift.empty();
}

int FrontEnd::stream_width() const { return recipe_.range > 0 ? config_.num_bins() : num_values_; }

// Where a frame's window begins; below 0 at the begin of a source whose windows are centred. Kaldi
// centres them on the middle of each shift unless snip_edges is set; the others centre the
// transform on frame * shift.
int64_t FrontEnd::FirstSample(int64_t frame) const {
  const int64_t at = frame * frame_shift();
  if (recipe_.is_kaldi) {
    return config_.snip_edges() ? at : at + frame_shift() / 2 - frame_length() / 2;
  }
  // The window lies in the middle of the transform, which is centred.
  return is_samples() ? at
                      : at - config_.fft_size() / 2 + (config_.fft_size() - frame_length()) / 2;
}

// Before frames are put together (stack).
int64_t FrontEnd::NumStreamFrames(int64_t num_samples) const {
  if (num_samples == 0) {
    return 0;
  }
  if (recipe_.is_kaldi) {
    if (!config_.snip_edges()) {
      return (num_samples + frame_shift() / 2) / frame_shift();
    }
    return num_samples < frame_length() ? 0 : 1 + (num_samples - frame_length()) / frame_shift();
  }
  return num_samples / frame_shift() + (recipe_.drops_last ? 0 : 1);
}

int64_t FrontEnd::NumFrames(int64_t num_samples) const {
  const int64_t least =
      num_samples > 0 ? int64_t{config_.pad_ms()} * config_.sample_rate() / 1000 : 0;
  const int64_t frames = NumStreamFrames(std::max(num_samples, least));
  return (frames + config_.stack_shift() - 1) / config_.stack_shift();
}

// As Kaldi computes it: in f32, with the frame's mean taken off first and a preemphasis within the
// frame, in which the first sample is taken for the one before it.
void FrontEnd::KaldiPower(absl::Span<float> samples, std::vector<float>& power) const {
  float sum = 0;
  for (const float sample : samples) {
    sum += sample;
  }
  const float mean = sum / static_cast<float>(samples.size());
  for (float& sample : samples) {
    sample -= mean;
  }
  std::vector<float> signal(static_cast<size_t>(config_.fft_size()));  // zeros behind the samples
  for (size_t i = samples.size(); i-- > 0;) {
    const float before = samples[i == 0 ? 0 : i - 1];
    signal[i] = (samples[i] - kFramePreemphasis * before) * window_[i];
  }
  power.resize(signal.size() / 2);
  kaldi_->Compute(signal, absl::MakeSpan(power));
}

void FrontEnd::Power(absl::Span<const float> samples, std::vector<double>& power) const {
  std::vector<double> signal(static_cast<size_t>(config_.fft_size()));
  for (size_t i = 0; i < samples.size(); ++i) {
    signal[i] = static_cast<double>(samples[i]) * window_[i];
  }
  power.resize(signal.size() / 2 + 1);
  fourier_->Power(signal, absl::MakeSpan(power));
}

namespace {

template <typename Value>
Value Energy(const MelBin& bin, const std::vector<Value>& power) {
  Value energy = 0;
  for (size_t i = 0; i < bin.weights.size(); ++i) {
    energy += static_cast<Value>(bin.weights[i]) * power[static_cast<size_t>(bin.first) + i];
  }
  return energy;
}

double Logarithm(const Recipe& recipe, double energy) {
  switch (recipe.log) {
    case Log::kFloor:
      return std::log(std::max(energy, static_cast<double>(recipe.offset)));
    case Log::kPlus:
      return std::log(energy + recipe.offset);
    case Log::kTen:
      return std::log10(std::max(energy, static_cast<double>(recipe.offset)));
    case Log::kDecibels:
      return 10 * std::log10(std::max(energy, static_cast<double>(recipe.offset)));
  }
  return 0;
}

}  // namespace

void FrontEnd::Compute(absl::Span<float> samples, std::vector<float>& features) const {
  if (is_samples()) {
    features.push_back(samples[0]);
    return;
  }
  std::vector<float> frame;
  if (recipe_.is_kaldi) {
    std::vector<float> power;
    KaldiPower(samples, power);
    for (const MelBin& bin : bins_) {
      frame.push_back(std::log(std::max(Energy(bin, power), recipe_.offset)));
    }
  } else {
    std::vector<double> power;
    Power(samples, power);
    for (const MelBin& bin : bins_) {
      frame.push_back(static_cast<float>(Logarithm(recipe_, Energy(bin, power))));
    }
  }
  if (recipe_.range == 0) {
    Transform(frame);
  }
  features.insert(features.end(), frame.begin(), frame.end());
}

// From logarithms of mel bins to cepstral coefficients, frame by frame; without coefficients the
// bins are the features.
void FrontEnd::Transform(std::vector<float>& features) const {
  if (cosines_.empty()) {
    return;
  }
  const auto bins = static_cast<size_t>(config_.num_bins());
  std::vector<float> transformed;
  for (size_t frame = 0; frame < features.size(); frame += bins) {
    for (size_t row = 0; row < cosines_.size(); row += bins) {
      double sum = 0;
      for (size_t bin = 0; bin < bins; ++bin) {
        sum += static_cast<double>(cosines_[row + bin]) * features[frame + bin];
      }
      transformed.push_back(static_cast<float>(sum));
    }
  }
  features = std::move(transformed);
}

// What needs the whole source, in the toolkits' order: the bound below the peak comes before the
// cosine transform, for it is one of logarithms; normalisation comes before frames are put
// together.
void FrontEnd::Complete(std::vector<float>& features) const {
  if (!needs_whole_source() || features.empty()) {
    return;
  }
  if (is_samples()) {
    if (config_.normalize()) {
      NormalizeSamples(features);
    }
    return;
  }
  if (recipe_.range > 0) {
    RaiseToRange(recipe_.range, features);
    Transform(features);
  }
  if (config_.kind() == v1::SOUND_KIND_WHISPER && cosines_.empty()) {
    for (float& feature : features) {
      feature = (feature + 4) / 4;
    }
  }
  if (config_.normalize()) {
    NormalizeColumns(static_cast<size_t>(num_values_), features);
  }
  StackFrames(num_values_, config_.stack(), config_.stack_shift(), features);
  ApplyCmvn(cmvn_, features);
}

int64_t FrontEndStream::Place(int64_t sample) const {
  const Padding padding = front_end_->recipe_.padding;
  if (padding == Padding::kZeros) {
    return sample >= 0 && sample < num_samples_ ? sample - first_sample_ : -1;
  }
  // Mirrored at both ends, as often as it takes.
  const int64_t edge = padding == Padding::kMirror || num_samples_ == 1 ? 1 : 0;
  while (sample < 0 || sample >= num_samples_) {
    sample = sample < 0 ? -sample - edge : 2 * num_samples_ - 2 + edge - sample;
  }
  return sample - first_sample_;
}

// Computes the frames up to `end`, then forgets the samples that no later frame reads.
void FrontEndStream::ComputeUntil(int64_t end, std::vector<float>& features) {
  const auto length = static_cast<int64_t>(front_end_->frame_length());
  std::vector<float> frame(static_cast<size_t>(num_frames_ < end ? length : 0));
  for (; num_frames_ < end; ++num_frames_) {
    const int64_t first = front_end_->FirstSample(num_frames_);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t place = Place(first + i);
      frame[static_cast<size_t>(i)] = place < 0 ? 0 : samples_[static_cast<size_t>(place)];
    }
    front_end_->Compute(absl::MakeSpan(frame), features);
  }
  // The last frames of a source may be mirrored to what lies a frame before its end.
  const int64_t needed = std::clamp<int64_t>(front_end_->FirstSample(num_frames_) - length,
                                             first_sample_, num_samples_);
  samples_.erase(samples_.begin(),
                 samples_.begin() + static_cast<std::ptrdiff_t>(needed - first_sample_));
  first_sample_ = needed;
}

void FrontEndStream::Append(float sample) {
  const float scaled = front_end_->config_.integer_scale() ? kIntegerScale * sample : sample;
  samples_.push_back(scaled - front_end_->recipe_.preemphasis * before_);
  before_ = scaled;
  ++num_samples_;
}

// A frame is computed once its last sample has come; those that reach beyond the end wait for
// Finish, which knows what mirrors there.
void FrontEndStream::Add(absl::Span<const float> samples, std::vector<float>& features) {
  for (const float sample : samples) {
    Append(sample);
  }
  const int64_t within = front_end_->NumStreamFrames(num_samples_);
  int64_t end = num_frames_;
  while (end < within &&
         front_end_->FirstSample(end) + front_end_->frame_length() <= num_samples_) {
    ++end;
  }
  ComputeUntil(end, features);
}

void FrontEndStream::Finish(std::vector<float>& features) {
  const int64_t least =
      num_samples_ > 0 ? int64_t{front_end_->config_.pad_ms()} * front_end_->sample_rate() / 1000
                       : 0;
  while (num_samples_ < least) {
    Append(0);
  }
  ComputeUntil(front_end_->NumStreamFrames(num_samples_), features);
}

}  // namespace beamwright::sound
