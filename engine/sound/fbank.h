// Log-mel features of sound as Kaldi defines them (feature-window.cc, mel-computations.cc and
// feature-fbank.cc of kaldi), computed while the sound arrives. They are what speech models are
// trained on, so each step is Kaldi's, in its order:
//
//   frame of 25 ms, one every 10 ms -> minus its mean -> preemphasis 0.97 -> povey window
//   -> |FFT|^2, padded to a power of two -> triangles on the mel scale -> log(max(., 2^-23))
//
// without dither, all in single precision and rounded as kaldi-native-fbank 1.23 rounds
// (power_spectrum.h). What a frame says depends on its samples alone: not on the pieces in which
// they came.
#ifndef BEAMWRIGHT_ENGINE_SOUND_FBANK_H_
#define BEAMWRIGHT_ENGINE_SOUND_FBANK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/sound/power_spectrum.h"

namespace beamwright::sound {

inline constexpr int kFrameShiftMs = 10;

struct FbankOptions {
  // Samples a second, in [1000, 48000].
  int sample_rate = 16000;
  // Features of a frame, in [3, 256].
  int num_bins = 80;
  // Hz. Where the lowest triangle begins and the highest one ends; of the latter 0 and less count
  // from half the sample rate.
  float low_frequency = 20;
  float high_frequency = -400;
  // Samples, which are given at full scale 1, count as 16-bit integers: times 32768.
  bool integer_scale = false;
  // Frames lie wholly within the sound. If not, frame i is centred at (i + 1/2) * 10 ms, and the
  // sound is mirrored at its ends.
  bool snip_edges = false;
};

// The tables of one kind of features. Immutable; streams share it.
class Fbank {
 public:
  // InvalidArgument: an option is outside its range, or a triangle would hold no line of the
  // spectrum, because there are too many.
  static absl::StatusOr<std::shared_ptr<const Fbank>> Create(const FbankOptions& options);

  const FbankOptions& options() const { return options_; }
  int frame_length() const { return static_cast<int>(window_.size()); }  // samples
  int frame_shift() const { return frame_shift_; }                       // samples
  // Of a complete source of `num_samples` samples.
  int64_t NumFrames(int64_t num_samples) const;
  // The first sample of a frame; below 0 where the sound is mirrored.
  int64_t FirstSample(int64_t frame) const;

 private:
  friend class FbankStream;
  // Triangle on the lines of the spectrum from `first` on.
  struct Bin {
    int first = 0;
    std::vector<float> weights;
  };

  explicit Fbank(const FbankOptions& options) : options_(options) {}
  // frame: [spectrum_->size()], frame_length() samples, which are left changed, and zeros.
  // power: [spectrum_->size() / 2], for its use. Appends num_bins values to features.
  void Compute(absl::Span<float> frame, absl::Span<float> power,
               std::vector<float>& features) const;

  const FbankOptions options_;
  int frame_shift_ = 0;
  std::vector<float> window_;
  std::optional<PowerSpectrum> spectrum_;
  std::vector<Bin> bins_;
};

// One source. One thread at a time. Holds the samples that frames to come read, at most a frame's
// and those of the last piece.
class FbankStream {
 public:
  explicit FbankStream(std::shared_ptr<const Fbank> fbank) : fbank_(std::move(fbank)) {}

  // Samples at full scale 1. Appends the frames that are complete with them, [frames, num_bins].
  // Not after Finish.
  void Add(absl::Span<const float> samples, std::vector<float>& features);
  // The source is complete: appends the last frames.
  void Finish(std::vector<float>& features);

  int64_t num_frames() const { return num_frames_; }  // so far

 private:
  // Appends the frames up to `end`.
  void ComputeUntil(int64_t end, std::vector<float>& features);

  std::shared_ptr<const Fbank> fbank_;
  std::vector<float> samples_;  // from number first_sample_ on
  int64_t first_sample_ = 0;
  int64_t num_samples_ = 0;  // of the source so far
  int64_t num_frames_ = 0;
};

}  // namespace beamwright::sound

#endif  // BEAMWRIGHT_ENGINE_SOUND_FBANK_H_
