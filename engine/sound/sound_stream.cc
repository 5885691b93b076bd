// From the bytes of a sound, whole or in pieces, to the features of a model: samples (ReadSamples),
// the model's sample rate (the resampler), features (the front end). Samples of 32 bits may hold
// anything: NaN, and numbers that would overflow the power of a window, are refused with their
// place.
#include "engine/sound/sound_stream.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::sound {

// Changes the rate of sound, sample by sample as it comes. A new sample is a weighted sum of the
// old samples around its time; the weights are a windowed sinc (a low-pass filter at kCutoff of the
// lower rate's band, with Kaiser's window).
//
// 1. Constructor: the rates divided by their common factor. The times of new samples among old ones
//    repeat after rate_out samples, so there are rate_out sets of weights ("places"), which streams
//    of the same rates share (Places), or which are computed when needed, if the table would be
//    large.
// 2. Add appends old samples and makes all new ones whose old samples have come. Before the begin
//    of the sound is silence.
// 3. Finish adds silence and makes the rest.
//
// Filter keeps values of the filter in a table and interpolates. Dot adds in a fixed order, so that
// results have the same bits with a table or without, and however the sound was cut.

namespace {

// Distances count in samples of the lower rate, frequencies in its band, whose end is 1. Between
// the end of what passes and the end of the band the filter falls by kDecibels; half of it is left
// in the middle, kCutoff. Kaiser's formulas then give the width and the window's shape.
constexpr double kPasses = 0.91;
constexpr double kCutoff = (kPasses + 1) / 2;
constexpr double kDecibels = 96;
constexpr double kHalfWidth =
    (kDecibels - 8) / (2.285 * (1 - kPasses) * std::numbers::pi) / 2;  // 68
constexpr double kShape = 0.1102 * (kDecibels - 8.7);
// Values of the filter that are kept for a unit of distance; between them it is taken as straight,
// which is 1e-6 off at most.
constexpr int kValuesPerUnit = 512;

// The modified Bessel function of order 0.
double Bessel(double x) {
  double sum = 1;
  double term = 1;
  for (int k = 1; term > 1e-12 * sum; ++k) {
    term *= (x / (2 * k)) * (x / (2 * k));
    sum += term;
  }
  return sum;
}

std::vector<float> FilterValues() {
  std::vector<float> values;
  const auto count = static_cast<int>(std::ceil(kHalfWidth * kValuesPerUnit));
  for (int i = 0; i < count; ++i) {
    const double distance = static_cast<double>(i) / kValuesPerUnit;
    const double angle = std::numbers::pi * kCutoff * distance;
    const double sinc = i == 0 ? 1 : std::sin(angle) / angle;
    const double place = distance / kHalfWidth;
    values.push_back(static_cast<float>(
        kCutoff * sinc * Bessel(kShape * std::sqrt(1 - place * place)) / Bessel(kShape)));
  }
  values.insert(values.end(), 2, 0.F);
  return values;
}

// The filter at a distance.
float Filter(double distance) {
  static const std::vector<float>* const values = new std::vector<float>(FilterValues());
  const double place = std::abs(distance) * kValuesPerUnit;
  const auto below = static_cast<size_t>(place);
  if (below + 1 >= values->size()) {
    return 0;
  }
  const auto part = static_cast<float>(place - static_cast<double>(below));
  return (*values)[below] + part * ((*values)[below + 1] - (*values)[below]);
}

// The weights of old samples from `side` - 1 before the last one at or before the new one, which is
// `place` / rate_out behind that.
void FillWeights(int64_t rate_in, int64_t rate_out, int64_t place, absl::Span<float> weights) {
  const double scale =
      rate_out < rate_in ? static_cast<double>(rate_out) / static_cast<double>(rate_in) : 1;
  const auto side = static_cast<int64_t>(weights.size()) / 2;
  const double fraction = static_cast<double>(place) / static_cast<double>(rate_out);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double distance = static_cast<double>(static_cast<int64_t>(i) - side + 1) - fraction;
    weights[i] = Filter(distance * scale) * static_cast<float>(scale);
  }
}

// Adds in one order, whatever the compiler makes of it: eight sums, and then their sum.
float Dot(const float* a, const float* b, size_t count) {
  constexpr size_t kLanes = 8;
  std::array<float, kLanes> sums = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += a[i + lane] * b[i + lane];
    }
  }
  for (size_t lane = 0; i + lane < count; ++lane) {
    sums[lane] += a[i + lane] * b[i + lane];
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

}  // namespace

// Streams of the same rates share it. Rates are the client's choice: no more than kMostKept pairs
// of them have a table at a time, and none above kMostWeights; others compute each weight when they
// need it, to the same bits.
class Resampler::Places {
 public:
  Places(int64_t rate_in, int64_t rate_out, size_t width)
      : width_(width), weights_(static_cast<size_t>(rate_out) * width) {
    for (int64_t place = 0; place < rate_out; ++place) {
      FillWeights(rate_in, rate_out, place,
                  absl::MakeSpan(weights_).subspan(static_cast<size_t>(place) * width, width));
    }
  }
  const float* At(int64_t place) const {
    return weights_.data() + static_cast<size_t>(place) * width_;
  }

  // Null: there is no room for it.
  static std::shared_ptr<const Places> Shared(int64_t rate_in, int64_t rate_out, size_t width) {
    constexpr size_t kMostKept = 16;
    constexpr size_t kMostWeights = 100'000;
    if (static_cast<size_t>(rate_out) > kMostWeights / width) {
      return nullptr;
    }
    static Shelf* const shelf = new Shelf;
    const absl::MutexLock lock(&shelf->mutex);
    for (auto entry = shelf->kept.begin(); entry != shelf->kept.end();) {
      entry = entry->second.expired() ? shelf->kept.erase(entry) : std::next(entry);
    }
    const auto found = shelf->kept.find({rate_in, rate_out});
    if (found != shelf->kept.end()) {
      if (std::shared_ptr<const Places> places = found->second.lock()) {
        return places;
      }
    } else if (shelf->kept.size() >= kMostKept) {
      return nullptr;
    }
    auto places = std::make_shared<const Places>(rate_in, rate_out, width);
    shelf->kept[{rate_in, rate_out}] = places;
    return places;
  }

 private:
  struct Shelf {
    absl::Mutex mutex;
    std::map<std::pair<int64_t, int64_t>, std::weak_ptr<const Places>> kept ABSL_GUARDED_BY(mutex);
  };

  const size_t width_;  // of a place
  std::vector<float> weights_;
};

Resampler::Resampler(int rate_in, int rate_out) {
  const int common = std::gcd(rate_in, rate_out);
  rate_in_ = rate_in / common;
  rate_out_ = rate_out / common;
  if (rate_in_ == rate_out_) {
    return;
  }
  const double widened = std::max(1.0, static_cast<double>(rate_in) / rate_out);
  weights_.resize(2 * (static_cast<size_t>(kHalfWidth * widened) + 1));
  places_ = Places::Shared(rate_in_, rate_out_, weights_.size());
  // Silence comes before the source.
  first_sample_ = 1 - side();
  samples_.assign(static_cast<size_t>(side() - 1), 0.F);
}

float Resampler::At(int64_t number) {
  const int64_t place = number * rate_in_ % rate_out_;
  if (places_ == nullptr) {
    FillWeights(rate_in_, rate_out_, place, absl::MakeSpan(weights_));
  }
  const float* const weights = places_ == nullptr ? weights_.data() : places_->At(place);
  const int64_t first = Before(number) - side() + 1;
  return Dot(weights, samples_.data() + (first - first_sample_), weights_.size());
}

void Resampler::AppendUntil(int64_t end, std::vector<float>& resampled) {
  const int64_t there = first_sample_ + static_cast<int64_t>(samples_.size());
  while (num_resampled_ < end && Before(num_resampled_) + side() < there) {
    resampled.push_back(At(num_resampled_++));
  }
  const int64_t needed = std::clamp(Before(num_resampled_) - side() + 1, first_sample_, there);
  samples_.erase(samples_.begin(),
                 samples_.begin() + static_cast<std::ptrdiff_t>(needed - first_sample_));
  first_sample_ = needed;
}

void Resampler::Add(absl::Span<const float> samples, std::vector<float>& resampled) {
  if (rate_in_ == rate_out_) {
    resampled.insert(resampled.end(), samples.begin(), samples.end());
    return;
  }
  samples_.insert(samples_.end(), samples.begin(), samples.end());
  num_samples_ += static_cast<int64_t>(samples.size());
  AppendUntil(std::numeric_limits<int64_t>::max(), resampled);
}

void Resampler::Finish(std::vector<float>& resampled) {
  if (rate_in_ == rate_out_) {
    return;
  }
  samples_.insert(samples_.end(), static_cast<size_t>(side()) + 1, 0.F);
  // New samples whose time is within the source.
  AppendUntil((num_samples_ * rate_out_ + rate_in_ - 1) / rate_in_, resampled);
}

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
