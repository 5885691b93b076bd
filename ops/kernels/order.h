// The order in which TopK and ArgMax compare elements: NaN stands above every number, whatever its
// sign, and zeros of both signs are equal. So the order is total and an answer never depends on
// where an element stands.
#ifndef BEAMWRIGHT_OPS_KERNELS_ORDER_H_
#define BEAMWRIGHT_OPS_KERNELS_ORDER_H_

#include <type_traits>

#include "ops/tensor/dtype.h"

namespace beamwright::ops {

template <typename T>
auto Comparable(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return ToFloat(value);
  } else {
    return value;
  }
}

// a stands above b.
template <typename T>
bool Above(T a, T b) {
  const auto x = Comparable(a);
  const auto y = Comparable(b);
  return x > y || (x != x && y == y);
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ORDER_H_
