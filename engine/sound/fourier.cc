#include "engine/sound/fourier.h"

#include <cmath>
#include <cstddef>
#include <numbers>

namespace beamwright::sound {

FourierTransform::FourierTransform(int size) : size_(size) {
  int rest = size;
  for (int prime = 2; rest > 1; ++prime) {
    for (; rest % prime == 0; rest /= prime) {
      factors_.push_back(prime);
    }
  }
  for (int k = 0; k < size; ++k) {
    const double angle = -2 * std::numbers::pi * k / size;
    turns_.emplace_back(std::cos(angle), std::sin(angle));
  }
}

// Decimation in time (J. Cooley, J. Tukey, An Algorithm for the Machine Calculation of Complex
// Fourier Series): `parts` transforms of every parts-th value, and then each line of the whole from
// one line of each of them.
void FourierTransform::Transform(const double* signal, int size, int stride, size_t factor,
                                 Complex* result) const {
  if (size == 1) {
    result[0] = signal[0];
    return;
  }
  const int parts = factors_[factor];
  const int length = size / parts;
  for (int part = 0; part < parts; ++part) {
    Transform(signal + static_cast<std::ptrdiff_t>(part) * stride, length, stride * parts,
              factor + 1, result + static_cast<std::ptrdiff_t>(part) * length);
  }
  std::vector<Complex> lines(static_cast<size_t>(parts));
  for (int line = 0; line < length; ++line) {
    for (int part = 0; part < parts; ++part) {
      lines[static_cast<size_t>(part)] = result[part * length + line];
    }
    for (int block = 0; block < parts; ++block) {
      const int64_t at = line + static_cast<int64_t>(block) * length;
      Complex sum = lines[0];
      for (int part = 1; part < parts; ++part) {
        sum += lines[static_cast<size_t>(part)] *
               turns_[static_cast<size_t>(at * part % size * stride)];
      }
      result[at] = sum;
    }
  }
}

void FourierTransform::Power(absl::Span<const double> signal, absl::Span<double> power) const {
  std::vector<Complex> lines(static_cast<size_t>(size_));
  Transform(signal.data(), size_, 1, 0, lines.data());
  for (size_t line = 0; line < power.size(); ++line) {
    power[line] = std::norm(lines[line]);
  }
}

}  // namespace beamwright::sound
