// What "the same result" means between two implementations.
#ifndef BEAMWRIGHT_TESTS_CONFORMANCE_COMPARE_H_
#define BEAMWRIGHT_TESTS_CONFORMANCE_COMPARE_H_

#include "absl/status/status.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// The relative error that a case allows where it names none: 1e-5 for f32 and f64; for f16 and bf16
// four units in the last place, because implementations round intermediate values at different
// places.
double DefaultTolerance(DType dtype);

// OK if `actual` has the type and shape of `expected` (f32 stands for bf16 too, which .npz files
// lack) and every element agrees: integers and booleans exactly, NaN with NaN, infinities exactly,
// other floats within `tolerance` times the larger of |expected| and the mean |expected| of the
// tensor (a sum that happens to cancel is no more exact than its neighbours). 0: the default.
// Otherwise the first element that differs, the largest error, and how many differ.
absl::Status Compare(const Tensor& actual, const Tensor& expected, double tolerance = 0);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TESTS_CONFORMANCE_COMPARE_H_
