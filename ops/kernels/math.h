// exp, log, tanh and sigmoid of our own, in f32, for vector body and tail alike: branch-free, so
// that the compiler vectorises loops over them, and made of operations that round the same in every
// lane. A libm call for the tail and a vector routine for the body would make a result depend on
// where in an array a number stands (docs/numerics.md). Relative errors are below 2e-7 (tests
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

// Bits of an f32: all but the sign, which order as magnitudes do, NaN above infinity; and infinity.
inline constexpr int32_t kMagnitudeBits = 0x7fffffff;
inline constexpr int32_t kInfinityBits = 0x7f800000;

// a * b + c, rounded once: an instruction where the CPU has one, a slow call where it has none, the
// same bits in both.
BW_ALWAYS_INLINE inline float FusedMultiplyAdd(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}

namespace math_internal {

// exp(x) = 2^n (1 + p) with p in [-0.3, 0.42], exact to the last place or so however small.
struct ExpParts {
  int32_t n;
  float p;
};

// x in [-104, 89]; NaN stays NaN in p, n is arbitrary then.
BW_ALWAYS_INLINE inline ExpParts SplitExp(float x) {
  constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float shifted = FusedMultiplyAdd(x, 1.44269504088896341f, kRound);
  const float whole = shifted - kRound;
  const float r =
      FusedMultiplyAdd(whole, 2.12194440e-4f, FusedMultiplyAdd(whole, -0.693359375f, x));
  float p = 1.9875691500e-4f;
  p = FusedMultiplyAdd(p, r, 1.3981999507e-3f);
  p = FusedMultiplyAdd(p, r, 8.3334519073e-3f);
  p = FusedMultiplyAdd(p, r, 4.1665795894e-2f);
  p = FusedMultiplyAdd(p, r, 1.6666665459e-1f);
  p = FusedMultiplyAdd(p, r, 5.0000001201e-1f);
  return {std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound),
          FusedMultiplyAdd(p * r, r, r)};
}

// exp(x) for x at most 89.
BW_ALWAYS_INLINE inline float ExpBelow89(float x) {
  x = x < -104.0f ? -104.0f : x;
  const ExpParts parts = SplitExp(x);
  // Two factors, so that subnormal results and 2^128 need no separate case. Unsigned: NaN
  // leaves arbitrary bits in n.
  const uint32_t half = static_cast<uint32_t>(parts.n >> 1);
  const uint32_t rest = static_cast<uint32_t>(parts.n) - half;
  return (parts.p + 1.0f) * std::bit_cast<float>((half + 127u) << 23) *
         std::bit_cast<float>((rest + 127u) << 23);
}

}  // namespace math_internal

// exp(x); 0 below -104, infinity above 88.73, NaN stays NaN. Exp(0) is exactly 1.
BW_ALWAYS_INLINE inline float Exp(float x) {
  return math_internal::ExpBelow89(x > 89.0f ? 89.0f : x);
}

// Natural logarithm; -infinity at 0, NaN below. What is chosen is chosen among integers: between
// floats the compiler makes branches of it, and does not vectorise.
BW_ALWAYS_INLINE inline float Log(float x) {
  const uint32_t given = std::bit_cast<uint32_t>(x);
  // All ones below 2^-126, where numbers are subnormal; of negative numbers it does not matter.
  const int32_t subnormal = static_cast<int32_t>(given - 0x00800000u) >> 31;
  constexpr int32_t kOne = 0x3f800000;    // 1.0f
  constexpr int32_t kScale = 0x4b000000;  // 2^23
  const float scaled = x * std::bit_cast<float>(kOne + (subnormal & (kScale - kOne)));
  const uint32_t bits = std::bit_cast<uint32_t>(scaled);
  // m in [sqrt(1/2), sqrt(2)): the exponent's border moves to the bits of sqrt(1/2).
  const int32_t exponent = static_cast<int32_t>(bits - 0x3f3504f3u) >> 23;
  const float m = std::bit_cast<float>(bits - (static_cast<uint32_t>(exponent) << 23)) - 1.0f;
  const float e = static_cast<float>(exponent - (subnormal & 23));
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
  // NaN for NaN and all negative numbers, which are above infinity as integers; -0 is 0.
  uint32_t other = given == kInfinityBits ? given : 0x7fc00000u;
  other = (given & kMagnitudeBits) == 0 ? 0xff800000u : other;
  // 0 and all from infinity on; a mask, as a choice would again become a branch.
  const uint32_t is_other = 0u - static_cast<uint32_t>(given - 1u >= kInfinityBits - 1u);
  const uint32_t chosen = (std::bit_cast<uint32_t>(result) & ~is_other) | (other & is_other);
  return std::bit_cast<float>(chosen);
}

// (1 - e) / (1 + e) with e = exp(-2 |x|), whose distance from 1 comes out of the expansion without
// cancelling. Beyond 20 it is 1.
BW_ALWAYS_INLINE inline float Tanh(float x) {
  float twice = -std::fabs(x + x);
  twice = twice < -40.0f ? -40.0f : twice;
  const math_internal::ExpParts parts = math_internal::SplitExp(twice);
  const float scale = std::bit_cast<float>((static_cast<uint32_t>(parts.n) + 127u) << 23);
  const float e_less_1 = FusedMultiplyAdd(scale, parts.p, scale - 1.0f);
  const float magnitude = -e_less_1 / (e_less_1 + 2.0f);
  const uint32_t sign = std::bit_cast<uint32_t>(x) & 0x80000000u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

// 1 / (1 + exp(-x)), accurate in both tails.
BW_ALWAYS_INLINE inline float Sigmoid(float x) {
  const float e = math_internal::ExpBelow89(-std::fabs(x));
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
