// SoundStream: from the bytes of a sound, as they arrive, to the features that a model reads:
// samples as floats, resampled to the model's rate, features of them, which FrontEnd::Complete
// finishes when the source is complete.
#ifndef BEAMWRIGHT_ENGINE_SOUND_SOUND_STREAM_H_
#define BEAMWRIGHT_ENGINE_SOUND_SOUND_STREAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/sound/front_end.h"

namespace beamwright::sound {

// Resampler: sound of one sample rate as sound of another, while it arrives: a low-pass filter, the
// sinc function under a Kaiser window (A. Oppenheim, R. Schafer, Discrete-Time Signal Processing,
// 'Design of FIR filters by the Kaiser window method'), asked at the times of the new samples. Of
// the lower rate's band, nine tenths pass within 0.01 dB, and nothing above the band comes back
// below it within 90 dB, as in soxr's medium quality and better. The delay is 4 ms at 16 kHz.
//
// Times are integers and sums have one order, so the result does not depend on the pieces that went
// in.

// One source. One thread at a time. Both rates are positive.
class Resampler {
 public:
  // The filter at each place that a new sample can have between two old ones.
  class Places;

  Resampler(int rate_in, int rate_out);

  // Appends the new samples whose surroundings are complete with these. Not after Finish.
  void Add(absl::Span<const float> samples, std::vector<float>& resampled);
  // The source is complete: silence follows it.
  void Finish(std::vector<float>& resampled);

 private:
  // Old samples on each side of a new one that the filter reads.
  int64_t side() const { return static_cast<int64_t>(weights_.size()) / 2; }
  // The last old sample at or before a new one.
  int64_t Before(int64_t number) const { return number * rate_in_ / rate_out_; }
  float At(int64_t number);
  // Appends new samples up to number `end`, as far as their surroundings are there.
  void AppendUntil(int64_t end, std::vector<float>& resampled);

  // Without their common factor.
  int64_t rate_in_ = 0;
  int64_t rate_out_ = 0;
  std::shared_ptr<const Places> places_;  // null: weights are computed for each new sample
  std::vector<float> weights_;            // for that
  std::vector<float> samples_;            // old ones, from number first_sample_ on
  int64_t first_sample_ = 0;
  int64_t num_samples_ = 0;  // of the source
  int64_t num_resampled_ = 0;
};

// Of a format that lacks something: 16-bit integers, 16,000 samples a second.
struct Format {
  bool is_f32 = false;
  int sample_rate = 16000;
  int sample_bytes() const { return is_f32 ? 4 : 2; }
};

// InvalidArgument naming the field, beneath `format`, that is wrong.
absl::StatusOr<Format> ReadFormat(const v1::AudioFormat& format);

// Appends the samples of bytes, at full scale 1. InvalidArgument without a field: they are not
// whole samples, or one is not finite.
absl::Status ReadSamples(const Format& format, absl::string_view bytes,
                         std::vector<float>& samples);

// One source. One thread at a time.
class SoundStream {
 public:
  SoundStream(std::shared_ptr<const FrontEnd> front_end, const Format& format)
      : format_(format),
        resampler_(format.sample_rate, front_end->sample_rate()),
        features_(std::move(front_end)) {}

  // Appends the frames of features, [frames, stream_width()], that are complete with these bytes.
  // As ReadSamples; an error leaves the stream as it was.
  absl::Status Add(absl::string_view bytes, std::vector<float>& features);
  // The source is complete: appends the last frames.
  void Finish(std::vector<float>& features);

 private:
  const Format format_;
  Resampler resampler_;
  FrontEndStream features_;
};

}  // namespace beamwright::sound

#endif  // BEAMWRIGHT_ENGINE_SOUND_SOUND_STREAM_H_
