// Resampler: sound of one sample rate as sound of another, while it arrives: a low-pass filter, the
// sinc function under a Hann window of six zeros on each side, asked at the times of the new
// samples. It is the resampler of Kaldi (LinearResample in feat/resample.cc) and of sherpa-onnx,
// cut-off included, so that models hear what they hear there.
//
// Times are integers, so what comes out does not depend on the pieces that went in.
#ifndef BEAMWRIGHT_ENGINE_SOUND_RESAMPLER_H_
#define BEAMWRIGHT_ENGINE_SOUND_RESAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace beamwright::sound {

// Rates must be multiples of it: the filter is kept for each place that a new sample can have
// between two old ones.
inline constexpr int kRateUnit = 25;

// One source. One thread at a time. Both rates are positive multiples of kRateUnit.
class Resampler {
 public:
  Resampler(int rate_in, int rate_out);

  // Appends the new samples whose surroundings are complete with these. Not after Finish.
  void Add(absl::Span<const float> samples, std::vector<float>& resampled);
  // The source is complete: silence follows it.
  void Finish(std::vector<float>& resampled);

 private:
  // The filter for one place: weights of old samples from `first` on, counted from the old sample
  // that a whole period begins with.
  struct Place {
    int64_t first = 0;
    std::vector<float> weights;
  };

  // Old samples [begin, end) that a new one reads, and its place.
  const Place& PlaceOf(int64_t number, int64_t& begin, int64_t& end) const;
  float At(int64_t number) const;

  // A period of both rates: old samples, and as many places.
  int64_t period_in_ = 0;
  std::vector<Place> places_;
  bool is_same_ = false;
  std::vector<float> samples_;  // old ones, from number first_sample_ on
  int64_t first_sample_ = 0;
  int64_t num_samples_ = 0;
  int64_t num_resampled_ = 0;
};

}  // namespace beamwright::sound

#endif  // BEAMWRIGHT_ENGINE_SOUND_RESAMPLER_H_
