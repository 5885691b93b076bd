// FourierTransform: |X[k]|^2 of a real signal of any length, in double precision, for toolkits
// whose transform is exact to single precision. Kaldi's, whose rounding shows: power_spectrum.h.
#ifndef BEAMWRIGHT_ENGINE_SOUND_FOURIER_H_
#define BEAMWRIGHT_ENGINE_SOUND_FOURIER_H_

#include <complex>
#include <vector>

#include "absl/types/span.h"

namespace beamwright::sound {

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

}  // namespace beamwright::sound

#endif  // BEAMWRIGHT_ENGINE_SOUND_FOURIER_H_
