// exp, log, tanh and sigmoid of our own, in f32, for vector body and tail alike: branch-free, so
// that the compiler vectorises loops over them, and made of operations that round the same in every
// lane. A libm call for the tail and a vector routine for the body would make a result depend on
// where in an array a number stands (docs/numerics.md). Relative errors are below 3e-7 (tests
// compare with double); coefficients are those of Cephes (S. Moshier, single precision). Always
// inlined, so that loops take whatever instructions they are compiled for (ops/base/vector_isa.h).
#ifndef BEAMWRIGHT_OPS_KERNELS_MATH_H_
#define BEAMWRIGHT_OPS_KERNELS_MATH_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/base/vector_isa.h"

namespace beamwright::ops {

// exp(x); 0 below -104, infinity above 88.73, NaN stays NaN. Exp(0) is exactly 1.
BW_ALWAYS_INLINE inline float Exp(float x) {
  constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const float shifted = x * 1.44269504088896341f + kRound;
  const int32_t n = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  const float whole = shifted - kRound;
  const float r = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r) * r + r + 1.0f;
  // Two factors, so that subnormal results and 2^128 need no case of their own. Unsigned: NaN
  // leaves arbitrary bits in n.
  const uint32_t half = static_cast<uint32_t>(n >> 1);
  const uint32_t rest = static_cast<uint32_t>(n) - half;
  return p * std::bit_cast<float>((half + 127u) << 23) * std::bit_cast<float>((rest + 127u) << 23);
}

// Natural logarithm; -infinity at 0, NaN below.
BW_ALWAYS_INLINE inline float Log(float x) {
  const bool subnormal = x < std::numeric_limits<float>::min();
  const float scaled = subnormal ? x * 8388608.0f : x;
  const uint32_t bits = std::bit_cast<uint32_t>(scaled);
  // m in [sqrt(1/2), sqrt(2)): the exponent's border moves to the bits of sqrt(1/2).
  const int32_t exponent = static_cast<int32_t>(bits - 0x3f3504f3u) >> 23;
  const float m = std::bit_cast<float>(bits - (static_cast<uint32_t>(exponent) << 23)) - 1.0f;
  const float e = static_cast<float>(exponent) - (subnormal ? 23.0f : 0.0f);
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float y = p * m * z;
  y = y + -2.12194440e-4f * e;
  y = y - 0.5f * z;
  float result = m + y + 0.693359375f * e;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  result = x == 0.0f ? -kInfinity : result;
  result = x == kInfinity ? kInfinity : result;
  result = x >= 0.0f ? result : std::numeric_limits<float>::quiet_NaN();
  return result;
}

BW_ALWAYS_INLINE inline float Tanh(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float near = p * z * x + x;
  const float far = 1.0f - 2.0f / (Exp(magnitude + magnitude) + 1.0f);
  const float signed_far = x < 0.0f ? -far : far;
  return magnitude < 0.625f ? near : signed_far;
}

// 1 / (1 + exp(-x)), accurate in both tails.
BW_ALWAYS_INLINE inline float Sigmoid(float x) {
  const float e = Exp(x < 0.0f ? x : -x);
  const float top = x < 0.0f ? e : 1.0f;
  return top / (1.0f + e);
}

// The same in f64: the C library's, element by element.
inline double Exp(double x) { return std::exp(x); }
inline double Log(double x) { return std::log(x); }
inline double Tanh(double x) { return std::tanh(x); }
inline double Sigmoid(double x) {
  const double e = std::exp(x < 0.0 ? x : -x);
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// Sums in 16 lanes: element i goes to lane i mod 16, lanes are added in a fixed tree. The order
// follows from the count alone, never from alignment, position or instruction set.
inline constexpr int kLanes = 16;

template <typename T>
BW_ALWAYS_INLINE inline T AddLanes(T (&lanes)[kLanes]) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      lanes[i] += lanes[i + width];
    }
  }
  return lanes[0];
}

// Sum of value(i), f32 or f64, for i in [0, count).
template <typename Value>
BW_ALWAYS_INLINE inline auto LaneSum(int64_t count, Value value) {
  decltype(value(int64_t{0})) lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += value(i + lane);
    }
  }
  for (int lane = 0; i + lane < count; ++lane) {
    lanes[lane] += value(i + lane);
  }
  return AddLanes(lanes);
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_MATH_H_
