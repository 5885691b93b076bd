// The softmax of a slice, for SoftMax and what is computed with it.
#ifndef BEAMWRIGHT_OPS_KERNELS_SOFTMAX_H_
#define BEAMWRIGHT_OPS_KERNELS_SOFTMAX_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "ops/kernels/math.h"

namespace beamwright::ops {

// One slice of f32 or f64: `count` elements `stride` apart; `in` may be `out`. kContiguous: the
// stride is 1, which the compiler should know. kLog: the logarithm.
template <bool kContiguous, bool kLog, typename T>
BW_ALWAYS_INLINE inline void SoftmaxSlice(const T* in, T* out, int64_t count, int64_t stride) {
  const auto at = [stride](int64_t i) BW_ALWAYS_INLINE { return kContiguous ? i : i * stride; };
  // In lanes, which the compiler makes vectors of; which of equal numbers is found changes no bit.
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, -std::numeric_limits<T>::infinity());
  int64_t first = 0;
  for (; first + kLanes <= count; first += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const T x = in[at(first + lane)];
      lanes[lane] = x > lanes[lane] ? x : lanes[lane];
    }
  }
  T largest = -std::numeric_limits<T>::infinity();
  for (; first < count; ++first) {
    largest = in[at(first)] > largest ? in[at(first)] : largest;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    largest = lanes[lane] > largest ? lanes[lane] : largest;
  }
  if constexpr (kLog) {
    const T sum =
        LaneSum(count, [&](int64_t i) BW_ALWAYS_INLINE { return Exp(in[at(i)] - largest); });
    const T log_sum = Log(sum);
    for (int64_t i = 0; i < count; ++i) {
      out[at(i)] = (in[at(i)] - largest) - log_sum;
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      out[at(i)] = Exp(in[at(i)] - largest);
    }
    const T sum = LaneSum(count, [&](int64_t i) BW_ALWAYS_INLINE { return out[at(i)]; });
    for (int64_t i = 0; i < count; ++i) {
      out[at(i)] = out[at(i)] / sum;
    }
  }
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_SOFTMAX_H_
