#include "engine/sound/resampler.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace beamwright::sound {
namespace {

constexpr double kZeros = 6;

// The filter's value at this distance in seconds from its centre.
double Filter(double cutoff, double seconds) {
  const double half_width = kZeros / (2 * cutoff);
  if (std::abs(seconds) >= half_width) {
    return 0;
  }
  const double window = 0.5 * (1 + std::cos(std::numbers::pi * seconds / half_width));
  const double sinc = seconds == 0 ? 2 * cutoff
                                   : std::sin(2 * std::numbers::pi * cutoff * seconds) /
                                         (std::numbers::pi * seconds);
  return window * sinc;
}

}  // namespace

Resampler::Resampler(int rate_in, int rate_out) : is_same_(rate_in == rate_out) {
  const int common = std::gcd(rate_in, rate_out);
  period_in_ = rate_in / common;
  const double cutoff = 0.99 * 0.5 * std::min(rate_in, rate_out);
  const double half_width = kZeros / (2 * cutoff);
  for (int64_t number = 0; !is_same_ && number < rate_out / common; ++number) {
    const double time = static_cast<double>(number) / rate_out;
    Place place;
    place.first = static_cast<int64_t>(std::ceil((time - half_width) * rate_in));
    const auto last = static_cast<int64_t>(std::floor((time + half_width) * rate_in));
    for (int64_t i = place.first; i <= last; ++i) {
      place.weights.push_back(
          static_cast<float>(Filter(cutoff, static_cast<double>(i) / rate_in - time) / rate_in));
    }
    places_.push_back(std::move(place));
  }
}

const Resampler::Place& Resampler::PlaceOf(int64_t number, int64_t& begin, int64_t& end) const {
  const auto count = static_cast<int64_t>(places_.size());
  const Place& place = places_[static_cast<size_t>(number % count)];
  begin = number / count * period_in_ + place.first;
  end = begin + static_cast<int64_t>(place.weights.size());
  return place;
}

float Resampler::At(int64_t number) const {
  int64_t begin = 0;
  int64_t end = 0;
  const Place& place = PlaceOf(number, begin, end);
  float sum = 0;
  const int64_t from = std::max<int64_t>(begin, 0);  // before and behind the source is silence
  for (int64_t i = from; i < std::min(end, num_samples_); ++i) {
    sum += place.weights[static_cast<size_t>(i - begin)] *
           samples_[static_cast<size_t>(i - first_sample_)];
  }
  return sum;
}

void Resampler::Add(absl::Span<const float> samples, std::vector<float>& resampled) {
  if (is_same_) {
    resampled.insert(resampled.end(), samples.begin(), samples.end());
    return;
  }
  samples_.insert(samples_.end(), samples.begin(), samples.end());
  num_samples_ += static_cast<int64_t>(samples.size());
  int64_t begin = 0;
  int64_t end = 0;
  for (PlaceOf(num_resampled_, begin, end); end <= num_samples_;
       PlaceOf(++num_resampled_, begin, end)) {
    resampled.push_back(At(num_resampled_));
  }
  const int64_t needed = std::clamp(begin, first_sample_, num_samples_);
  samples_.erase(samples_.begin(),
                 samples_.begin() + static_cast<std::ptrdiff_t>(needed - first_sample_));
  first_sample_ = needed;
}

void Resampler::Finish(std::vector<float>& resampled) {
  if (is_same_) {
    return;
  }
  // Those whose time lies within the source.
  const auto places = static_cast<int64_t>(places_.size());
  const int64_t count = (num_samples_ * places + period_in_ - 1) / period_in_;
  for (; num_resampled_ < count; ++num_resampled_) {
    resampled.push_back(At(num_resampled_));
  }
}

}  // namespace beamwright::sound
