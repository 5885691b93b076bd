// FrontEnd: what an encoder reads of a sound, as the toolkit computes it that trained the model:
//
//   kind        frame of      edges    spectrum of       mel     logarithm        over the source
//   Kaldi       25 ms, 10 ms  mirror   preemphasised x   Kaldi   ln max(., 2^-23)
//   NeMo        25 ms, 10 ms  zeros    preemphasised x   Slaney  ln(. + 2^-24)    deviation 1
//   Whisper     400, 160      reflect  x                 Slaney  log10            8 below the peak
//   torchaudio  400, 200      reflect  x                 HTK     ln(. + 1e-6)
//   librosa     2048, 512     zeros    x                 Slaney  dB               80 below the peak
//   samples     1, 1                                                              deviation 1
//
// After that, for all of them: the cosine transform of MFCC, frames side by side at a lower rate,
// and shift and scale of each feature.
//
// Kaldi's features are in single precision and rounded as kaldi-native-fbank 1.23 rounds
// (spectrum.h), the others in double precision up to the logarithm. A frame depends on its
// samples alone, not on the pieces in which they came, until the source is complete; Complete then
// does what needs all of it.
#ifndef BEAMWRIGHT_ENGINE_SOUND_FRONT_END_H_
#define BEAMWRIGHT_ENGINE_SOUND_FRONT_END_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"
#include "engine/sound/spectrum.h"

namespace beamwright::sound {

// How a toolkit computes; front_end.cc has the table.
struct Recipe;

// The tables of one kind of features. Immutable; streams share it.
class FrontEnd {
 public:
  // cmvn: of config.cmvn. InvalidArgument naming the field that is outside its range or does not
  // apply to the kind, or if a triangle of Kaldi's would hold no line of the spectrum.
  static absl::StatusOr<std::shared_ptr<const FrontEnd>> Create(const v1::SoundConfig& config,
                                                                Cmvn cmvn = {});

  bool is_samples() const { return config_.kind() == v1::SOUND_KIND_SAMPLES; }
  int sample_rate() const { return config_.sample_rate(); }
  int frame_length() const { return config_.window_length(); }  // samples
  int frame_shift() const { return config_.window_shift(); }    // samples
  // Of a frame as the encoder reads it: features, and milliseconds to the next one.
  int width() const { return num_values_ * config_.stack(); }
  double frame_ms() const;
  // Whether Complete changes features, so that none is known before the source is complete.
  bool needs_whole_source() const;
  // Frames of a complete source of `num_samples` samples, as the encoder reads them.
  int64_t NumFrames(int64_t num_samples) const;

  // Of frames as FrontEndStream appends them, [frames, stream_width()]: the first sample, below 0
  // where the sound is padded; the number in a complete source.
  int stream_width() const;
  int64_t FirstSample(int64_t frame) const;
  int64_t NumStreamFrames(int64_t num_samples) const;
  // Most frames of a stream that can become `frames`.
  int64_t StreamFramesOf(int64_t frames) const { return frames * config_.stack_shift(); }
  // All frames of a stream become what the encoder reads, [frames, width()].
  void Complete(std::vector<float>& features) const;

 private:
  friend class FrontEndStream;

  FrontEnd(const v1::SoundConfig& config, const Recipe& recipe, Cmvn cmvn)
      : config_(config), recipe_(recipe), cmvn_(std::move(cmvn)) {}
  absl::Status MakeTables();
  // samples: [frame_length()], left changed. Appends stream_width() values to features.
  void Compute(absl::Span<float> samples, std::vector<float>& features) const;
  void KaldiPower(absl::Span<float> samples, std::vector<float>& power) const;
  void Power(absl::Span<const float> samples, std::vector<double>& power) const;
  // The cosine transform of MFCC of frames [., num_bins]; nothing without it.
  void Transform(std::vector<float>& features) const;

  v1::SoundConfig config_;  // with all fields set
  const Recipe& recipe_;
  Cmvn cmvn_;
  int num_values_ = 0;  // of a frame before frames are put side by side
  std::vector<float> window_;
  std::optional<PowerSpectrum> kaldi_;
  std::optional<FourierTransform> fourier_;  // of the other kinds
  std::vector<MelBin> bins_;
  std::vector<float> cosines_;  // [num_coefficients, num_bins]
};

// One source. One thread at a time. Holds the samples that frames to come read, at most a frame's
// and those of the last piece.
class FrontEndStream {
 public:
  explicit FrontEndStream(std::shared_ptr<const FrontEnd> front_end)
      : front_end_(std::move(front_end)) {}

  // Samples at full scale 1. Appends the frames that are complete with them, [frames,
  // stream_width()]. Not after Finish.
  void Add(absl::Span<const float> samples, std::vector<float>& features);
  // The source is complete: appends the last frames.
  void Finish(std::vector<float>& features);

  int64_t num_frames() const { return num_frames_; }  // so far

 private:
  void Append(float sample);
  // Where the value of a sample is in samples_; below 0: it is zero.
  int64_t Place(int64_t sample) const;
  // Appends the frames up to `end`.
  void ComputeUntil(int64_t end, std::vector<float>& features);

  std::shared_ptr<const FrontEnd> front_end_;
  std::vector<float> samples_;  // from number first_sample_ on
  float before_ = 0;            // the last sample, before preemphasis
  int64_t first_sample_ = 0;
  int64_t num_samples_ = 0;  // of the source so far
  int64_t num_frames_ = 0;
};

}  // namespace beamwright::sound

#endif  // BEAMWRIGHT_ENGINE_SOUND_FRONT_END_H_
