// SoundStream: from the bytes of a sound, as they arrive, to the features that a model reads:
// samples as floats, resampled to the model's rate, features of them, which FrontEnd::Complete
// finishes when the source is complete.
#ifndef BEAMWRIGHT_ENGINE_SOUND_SOUND_STREAM_H_
#define BEAMWRIGHT_ENGINE_SOUND_SOUND_STREAM_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/sound/front_end.h"
#include "engine/sound/resampler.h"

namespace beamwright::sound {

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
