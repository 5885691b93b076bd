#include "ops/kernels/integer_convolution.h"

#include <algorithm>
#include <cmath>

namespace beamwright::ops {
namespace {

constexpr double kExact = 1 << 24;     // f32 holds every whole number up to this
constexpr double kUsualLargest = 255;  // of quantised data without its zero point

double Magnitude(int32_t value) { return std::abs(static_cast<double>(value)); }

}  // namespace

IntegerConvolution::IntegerConvolution(const Tensor& filter, bool grouped) {
  const int32_t* const weights = filter.data<int32_t>();
  const int64_t outputs = grouped ? filter.dim(0) * filter.dim(1) : filter.dim(0);
  const int64_t channels = filter.dim(grouped ? 2 : 1);
  const int64_t kernel = outputs * channels == 0 ? 0 : filter.num_elements() / (outputs * channels);
  std::vector<double> sums(static_cast<size_t>(outputs));  // of the portion in the making
  for (int64_t channel = 0; channel < channels; ++channel) {
    std::vector<double> grown = sums;
    for (int64_t output = 0; output < outputs; ++output) {
      const int32_t* const row = weights + (output * channels + channel) * kernel;
      for (int64_t i = 0; i < kernel; ++i) {
        grown[static_cast<size_t>(output)] += Magnitude(row[i]);
      }
    }
    const double largest = grown.empty() ? 0 : *std::max_element(grown.begin(), grown.end());
    // Groups read separate channels, which a portion can't be cut out of.
    const bool fits = grouped || largest * kUsualLargest < kExact;
    if (portions_.empty() || !fits) {
      portions_.push_back({channel, 0, {}, 0, std::make_unique<FloatConvolution>(true)});
      for (size_t output = 0; output < sums.size(); ++output) {
        grown[output] -= sums[output];
      }
    }
    sums = std::move(grown);
    Portion& portion = portions_.back();
    ++portion.count;
    portion.largest_sum = sums.empty() ? 0 : *std::max_element(sums.begin(), sums.end());
  }
  for (Portion& portion : portions_) {
    for (int64_t output = 0; output < outputs; ++output) {
      const int32_t* const begin = weights + (output * channels + portion.first) * kernel;
      portion.filter.insert(portion.filter.end(), begin, begin + portion.count * kernel);
    }
  }
}

bool IntegerConvolution::Run(int num_threads, const ConvolutionGeometry& geometry,
                             const int32_t* in, int32_t* out) const {
  const int64_t in_plane = geometry.InPlane();
  const int64_t results = geometry.groups * geometry.out_channels * geometry.OutPlane();
  std::fill(out, out + results, 0);
  std::vector<float> source;
  std::vector<float> sums(static_cast<size_t>(results));
  for (const Portion& portion : portions_) {
    const int32_t* const begin = in + portion.first * in_plane;
    const int32_t* const end = begin + geometry.groups * portion.count * in_plane;
    double largest = 0;
    source.clear();
    for (const int32_t* value = begin; value != end; ++value) {
      largest = std::max(largest, Magnitude(*value));
      source.push_back(static_cast<float>(*value));
    }
    if (largest * portion.largest_sum >= kExact) {
      return false;
    }
    ConvolutionGeometry part = geometry;
    part.in_channels = portion.count;
    portion.convolution->Run(num_threads, part, 1, portion.filter.data(), source.data(),
                             sums.data());
    std::transform(sums.begin(), sums.end(), out, out,
                   [](float sum, int32_t before) { return before + static_cast<int32_t>(sum); });
  }
  return !portions_.empty();
}

}  // namespace beamwright::ops
