// Quantisation: OpenVINO's FakeQuantize-1 and ONNX's QuantizeLinear, DequantizeLinear,
// DynamicQuantizeLinear, MatMulInteger and QLinearMatMul (operators of ours under ONNX's names and
// attributes). Everything rounds half to even.
#ifndef BEAMWRIGHT_OPS_KERNELS_QUANTIZATION_H_
#define BEAMWRIGHT_OPS_KERNELS_QUANTIZATION_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// quantization.cc: data, input_low, input_high, output_low, output_high, all of one float type,
// the limits broadcast to data; attributes levels (2 or more), auto_broadcast (numpy or none).
extern const OperatorCode kFakeQuantize;

// quantization.cc. Scales (and zero points, of the same shape) are scalars or [1], or with
// `axis` (default 1) a list, one entry an index of that axis; with block_size > 0 they have data's
// rank, and entry i of `axis` serves data's indices [i * block_size, (i + 1) * block_size).
// x (f32, f16, bf16, i32), y_scale, y_zero_point: attributes axis, block_size, output_dtype,
// saturate (ignored: the types here always saturate). i8, u8, i16, u16: zero point's type, else
// output_dtype (a type's name), else u8. saturate(round(x / y_scale) + y_zero_point).
extern const OperatorCode kQuantizeLinear;
// x (i8, u8, i16, u16, i32), x_scale (f32, f16, bf16), x_zero_point: attributes axis, block_size.
// (x - x_zero_point) * x_scale in f32, of the scale's type.
extern const OperatorCode kDequantizeLinear;
// dynamic_quantize.cc: x f32: y u8, y_scale, y_zero_point, over the range of all of x and 0. With
// attribute item_axis (>= 0), which a served model is given (ops/passes/scales_by_item.cc), over
// the range of each item: `item_extent` (1) indices of that axis. y_scale and y_zero_point have x's
// rank then, and extent 1 on all other axes. item_axis -1: an axis that is not known yet, for
// inference alone.
extern const OperatorCode kDynamicQuantizeLinear;

// integer_matmul.cc: products of i8 and u8, summed exactly in i32 (wrapping beyond).
// a, b, a_zero_point, b_zero_point: zero points are scalars or [1], or one per row of a ([M], or
// what broadcasts to [.., M, 1]) and one per column of b ([N], or what broadcasts to [.., 1, N]). A
// matrix b that is known at load is packed (ops/kernels/integer_product.h).
extern const OperatorCode kMatMulInteger;
// integer_matmul.cc: in no file; made of MatMulInteger and what reads its sums
// (JoinScaledProducts). a, b, a_zero_point, b_zero_point (both may be absent), a_scale,
// b_scale[, bias[, addend]]: product * (a_scale * b_scale) + bias + addend, f32, each operation
// rounded in this order. a has two axes or more; b is [K, N] and known at load, as are its zero
// point, its scale and the bias, which is one value or one per column. Scales are like zero points;
// the addend, f32, broadcasts.
inline constexpr char kScaledIntegerProductName[] = "ScaledIntegerProduct";
extern const OperatorCode kScaledIntegerProduct;
// a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point: scales (f32) like zero
// points, those of y scalars. saturate(round(product * (a_scale * b_scale / y_scale)) +
// y_zero_point).
extern const OperatorCode kQLinearMatMul;

// A whole number rounded to T's nearest value; NaN is 0.
template <typename T>
T Saturate(float value) {
  constexpr float kLeast = static_cast<float>(std::numeric_limits<T>::lowest());
  constexpr float kMost = static_cast<float>(std::numeric_limits<T>::max());
  if constexpr (std::is_unsigned_v<T>) {
    // As vectors take the larger of two: NaN is not above 0.
    const float at_least = value > kLeast ? value : kLeast;
    return static_cast<T>(static_cast<int32_t>(at_least < kMost ? at_least : kMost));
  } else {
    return value != value ? T{}
                          : static_cast<T>(value < kLeast  ? kLeast
                                           : value > kMost ? kMost
                                                           : value);
  }
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_QUANTIZATION_H_
