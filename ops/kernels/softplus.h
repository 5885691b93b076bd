// ln(1 + e^x) as exports spell it in several nodes, as one function with the bits of those nodes
// (ops/passes/softplus_fusion.cc): StableSoftPlus and GuardedSoftPlus, operators in no file.
#ifndef BEAMWRIGHT_OPS_KERNELS_SOFTPLUS_H_
#define BEAMWRIGHT_OPS_KERNELS_SOFTPLUS_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/kernels/math.h"

namespace beamwright::ops {

inline constexpr char kStableSoftPlusName[] = "StableSoftPlus";
inline constexpr char kGuardedSoftPlusName[] = "GuardedSoftPlus";

// Maximum(0, x) + Log(1 + Exp(-Abs(x)))
struct StableSoftPlusOf {
  template <typename T>
  BW_ALWAYS_INLINE T operator()(T x) const {
    return (T{0} < x ? x : T{0}) + Log(T{1} + Exp(-std::fabs(x)));
  }
};

// Log(Exp(x) + 1), but x where that is infinite.
struct GuardedSoftPlusOf {
  // Chosen among integers, as in Log: a branch would keep the loop from being vectorised.
  BW_ALWAYS_INLINE float operator()(float x) const {
    const uint32_t log = std::bit_cast<uint32_t>(Log(Exp(x) + 1.0f));
    const uint32_t is_infinite = 0u - static_cast<uint32_t>(log == uint32_t{kInfinityBits});
    return std::bit_cast<float>((log & ~is_infinite) | (std::bit_cast<uint32_t>(x) & is_infinite));
  }
  double operator()(double x) const {
    const double log = Log(Exp(x) + 1.0);
    return log == std::numeric_limits<double>::infinity() ? x : log;
  }
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_SOFTPLUS_H_
