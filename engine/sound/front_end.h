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
// (Spectrum), the others in double precision up to the logarithm. A frame depends on its
// samples alone, not on the pieces in which they came, until the source is complete; Complete then
// does what needs all of it.
#ifndef BEAMWRIGHT_ENGINE_SOUND_FRONT_END_H_
#define BEAMWRIGHT_ENGINE_SOUND_FRONT_END_H_

#include <complex>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"

namespace beamwright::sound {

// Parts of front ends: spectra of frames, and what is done once a source is complete.

// Spectra of a frame of sound: windows, Fourier transforms, and triangles on the mel scale.

// Triangles on the mel scale and windows of a frame, as the toolkits of front_end.h have them.

// A triangle on the lines of a spectrum from `first` on.
struct MelBin {
  int first = 0;
  std::vector<float> weights;  // none: no line lies within it
};

struct MelOptions {
  int sample_rate = 0;
  int fft_size = 0;
  int num_bins = 0;
  float low = 0;   // Hz
  float high = 0;  // Hz
};

// Kaldi's: straight on the mel scale, in single precision, on lines below fft_size / 2.
std::vector<MelBin> KaldiBins(const MelOptions& options);

// Straight in Hz between points that are spaced evenly on a mel scale, on lines up to fft_size / 2.
// is_slaney: the scale of M. Slaney's Auditory Toolbox (straight below 1 kHz), and triangles of one
// area; else the scale of HTK, and triangles of one height.
std::vector<MelBin> TriangleBins(const MelOptions& options, bool is_slaney);

enum class Window { kPovey, kHamming, kHann };

// is_periodic: of a period of `length` samples, else `length` - 1, so that both ends are equal.
std::vector<double> MakeWindow(Window window, int length, bool is_periodic);

// FourierTransform: |X[k]|^2 of a real signal of any length, in double precision, for toolkits
// whose transform is exact to single precision. Kaldi's, whose rounding shows: PowerSpectrum.
// Immutable; threads share it.
class FourierTransform {
 public:
  // size: at least 1. Time grows with the sum of its prime factors.
  explicit FourierTransform(int size);

  int size() const { return size_; }
  // signal: [size]. power: [size / 2 + 1].
  void Power(absl::Span<const double> signal, absl::Span<double> power) const;

 private:
  using Complex = std::complex<double>;

  // The transform of signal[0], signal[stride], ..., `size` of them.
  void Transform(const double* signal, int size, int stride, size_t factor, Complex* result) const;

  const int size_;
  std::vector<int> factors_;    // primes
  std::vector<Complex> turns_;  // exp(-2 pi i k / size)
};

// PowerSpectrum: the squares of a real signal's Fourier transform, |X[k]|^2 for k in [0, size / 2),
// in single precision, rounded as in kaldi-native-fbank's published programs.
//
// Features are logarithms. Where a line of the spectrum has a millionth of its frame's energy, as
// next to a pure tone, they show what the transform rounded off, and another transform, however
// good, differs there by 0.01 to 1. So this is the algorithm of the library that kaldi-native-fbank
// uses (kissfft: radix 4 in time over pairs of samples, then the two halves of a real signal are
// separated), and the order of its additions is what -ffast-math made of it in the wheels of
// version 1.23 for x86-64. Here that order is written down; it holds with any compiler on any
// machine.
//
// Immutable; threads share it.
class PowerSpectrum {
 public:
  // size: a power of two, at least 4.
  explicit PowerSpectrum(int size);

  int size() const { return 2 * num_pairs_; }
  // signal: [size]. power: [size / 2].
  void Compute(absl::Span<const float> signal, absl::Span<float> power) const;

 private:
  // Complex numbers, real and imaginary parts apart.
  struct Factors {
    std::vector<float> re;
    std::vector<float> im;
    void Add(double angle);
  };
  // Makes transforms of 4 * length values out of those of `length` values.
  // factors: [3][length], exp(-2 pi i j u / (4 * length)) for j in [1, 3].
  struct Stage {
    int length = 0;
    Factors factors;
  };

  // re, im: [num_pairs_].
  static void JoinFour(const Stage& stage, int num_values, float* re, float* im);

  const int num_pairs_;           // of samples; the transform has this number of complex values
  std::vector<int> order_;        // the pair that each value begins as
  bool begins_with_two_ = false;  // num_pairs_ is no power of four
  std::vector<Stage> stages_;
  Factors halves_;  // that separate the halves, from line 1 on
};

// What the front ends of front_end.h do once a source is complete.

// Features that are more than `range` below the largest one are raised to that. 0: none is.
void RaiseToRange(float range, std::vector<float>& features);

// features: [frames, columns]. Each column less its mean, divided by its deviation (n - 1) plus
// 1e-5, as NeMo has it.
void NormalizeColumns(size_t columns, std::vector<float>& features);

// Less their mean, divided by the root of their variance plus 1e-7, as wav2vec2's have it.
void NormalizeSamples(std::vector<float>& samples);

// features: [frames, columns] -> [ceil(frames / shift), stack * columns], as FunASR's apply_lfr:
// the first frame is repeated (stack - 1) / 2 times before the source, and its last one as often as
// needed behind it.
void StackFrames(int columns, int stack, int shift, std::vector<float>& features);

// What is added to each feature, and by which their sum is multiplied; empty: nothing.
struct Cmvn {
  std::vector<float> shift;
  std::vector<float> scale;
};

// The text form of Kaldi's nnet that FunASR writes. InvalidArgument: it has no <AddShift> and
// <Rescale> of equally many numbers.
absl::StatusOr<Cmvn> ParseCmvn(absl::string_view text);

// features: [frames, columns of cmvn].
void ApplyCmvn(const Cmvn& cmvn, std::vector<float>& features);

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
