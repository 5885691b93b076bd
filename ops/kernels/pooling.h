// MaxPool-1, -8, -14 and AvgPool-1, -14, -16 over one to three spatial axes of [N, C, spatial..]:
// attributes kernel, strides, dilations, pads_begin, pads_end, auto_pad, rounding_type.
#ifndef BEAMWRIGHT_OPS_KERNELS_POOLING_H_
#define BEAMWRIGHT_OPS_KERNELS_POOLING_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// Floats and integers. One output, or two (version 8): where each maximum stands, of type
// index_element_type (i64 or i32), counted in the data flattened from `axis` on. The first of equal
// elements wins; NaN never wins. A window that holds nothing but padding or NaN gives the type's
// lowest finite number and index 0 of its plane.
extern const OperatorCode kMaxPool;

// f32 and f64, f16 and bf16 in f32; attribute exclude-pad. The divisor is the number of data
// elements in the window, with exclude-pad false that of all its positions within the pads that the
// attributes give. A window without any gives 0.
extern const OperatorCode kAvgPool;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_POOLING_H_
