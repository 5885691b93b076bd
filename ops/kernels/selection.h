// Operators that look for elements along an axis, any integer or float type. NaN stands above every
// number; among equal elements the one with the lower index comes first.
#ifndef BEAMWRIGHT_OPS_KERNELS_SELECTION_H_
#define BEAMWRIGHT_OPS_KERNELS_SELECTION_H_

#include <type_traits>

#include "ops/kernels/operator_code.h"
#include "ops/tensor/dtype.h"

namespace beamwright::ops {

// The order in which TopK and ArgMax compare elements: NaN stands above every number, whatever its
// sign, and zeros of both signs are equal. So the order is total and an answer never depends on
// where an element stands.

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

// selection.cc: TopK-1, -3, -11: data, k (a scalar); attributes axis, mode (max or min), sort
// (value, index or none), index_element_type (i32, the default, or i64), stable (always so).
// Outputs: values and their indices along the axis. k must lie in [0, extent of the axis]; sort
// none gives the order of values.
extern const OperatorCode kTopK;

// selection.cc: ArgMax and ArgMin of ONNX: attributes axis (default 0), keepdims (default 1),
// select_last_index (default 0: the first of equal elements). i64.
extern const OperatorCode kArgExtreme;

// selection.cc: CumSum-3: data, axis (a scalar); attributes exclusive, reverse. Integers wrap;
// f16 and bf16 are summed in f32.
extern const OperatorCode kCumSum;
extern const OperatorCode kCumProd;  // the same with products

// unique.cc: Unique-10: data[, axis] (absent: of all elements); attributes sorted (default true:
// ascending, else by first occurrence), index_element_type and count_element_type (i64, the
// default, or i32). Outputs: the elements, or the slices across the axis, that occur; where each
// occurs first; for each of data's which it is; how often each occurs. NaNs are equal to each
// other.
extern const OperatorCode kUnique;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_SELECTION_H_
