// Parts of front ends: spectra of frames, and what is done once a source is complete.
#ifndef BEAMWRIGHT_ENGINE_SOUND_SPECTRUM_H_
#define BEAMWRIGHT_ENGINE_SOUND_SPECTRUM_H_

#include <complex>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright::sound {

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

}  // namespace beamwright::sound

#endif  // BEAMWRIGHT_ENGINE_SOUND_SPECTRUM_H_
