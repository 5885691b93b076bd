// What the scatter operators share. Private to them.
#ifndef BEAMWRIGHT_OPS_KERNELS_SCATTER_H_
#define BEAMWRIGHT_OPS_KERNELS_SCATTER_H_

#include <type_traits>

#include "ops/kernels/inputs.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

enum class Reduction { kNone, kSum, kSub, kProd, kMin, kMax, kMean };

// Attribute reduction, default none. `refused` is the one of the list that the operator lacks: kSub
// or kMean.
absl::StatusOr<Reduction> ParseReduction(const Node& node, Reduction refused);

// The checks that the three share: inputs, types, and the output, which is like data.
absl::Status ScatterShapes(size_t num_inputs, Reduction reduction,
                           absl::Span<const InputInfo> inputs, absl::Span<ValueInfo> outputs);
// `updates` must have the extents of `expected` as far as both are known.
absl::Status CheckUpdates(const PartialShape& updates, const PartialShape& expected);
// All elements of `from` to `to`, which has its type and shape.
void CopyAll(const Tensor& from, Tensor& to);

// An element with an update taken in. Of boolean a sum is "or", a difference "exclusive or", a
// product "and".
template <typename T>
T Reduced(Reduction reduction, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    switch (reduction) {
      case Reduction::kSum:
      case Reduction::kMax:
        return a || b;
      case Reduction::kSub:
        return a != b;
      case Reduction::kProd:
      case Reduction::kMin:
        return a && b;
      default:
        return b;
    }
  } else {
    const auto x = static_cast<WrapType<T>>(a);
    const auto y = static_cast<WrapType<T>>(b);
    switch (reduction) {
      case Reduction::kSum:
      case Reduction::kMean:
        return static_cast<T>(x + y);
      case Reduction::kSub:
        return static_cast<T>(x - y);
      case Reduction::kProd:
        return static_cast<T>(x * y);
      case Reduction::kMin:
        return b < a ? b : a;
      case Reduction::kMax:
        return a < b ? b : a;
      default:
        return b;
    }
  }
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_SCATTER_H_
