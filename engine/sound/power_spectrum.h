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
#ifndef BEAMWRIGHT_ENGINE_SOUND_POWER_SPECTRUM_H_
#define BEAMWRIGHT_ENGINE_SOUND_POWER_SPECTRUM_H_

#include <vector>

#include "absl/types/span.h"

namespace beamwright::sound {

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

}  // namespace beamwright::sound

#endif  // BEAMWRIGHT_ENGINE_SOUND_POWER_SPECTRUM_H_
