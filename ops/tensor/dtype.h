// Element types of tensors.
#ifndef BEAMWRIGHT_OPS_TENSOR_DTYPE_H_
#define BEAMWRIGHT_OPS_TENSOR_DTYPE_H_

#include <cstdint>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::ops {

enum class DType : uint8_t {
  kUndefined,
  kF32,
  kF16,
  kBF16,
  kF64,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

// Bytes of one element; 0 for kUndefined.
int64_t SizeOf(DType dtype);
// "f32", "f16", "bf16", "f64", "i64", ..., "u8", "boolean"; "undefined".
absl::string_view Name(DType dtype);
// Accepts the names above, OpenVINO's port precisions (FP32, I64, BOOL, ...) and "bool", without
// case.
absl::StatusOr<DType> ParseDType(absl::string_view name);

bool IsFloat(DType dtype);
bool IsInteger(DType dtype);  // signed or unsigned; not boolean

// 16-bit floats as storage. Conversion to f32 is exact; from f32 rounds to nearest, ties to even;
// NaN stays NaN.
struct Half {
  uint16_t bits = 0;
};
struct BFloat16 {
  uint16_t bits = 0;
};
float ToFloat(Half value);
Half ToHalf(float value);
inline float ToFloat(BFloat16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}
BFloat16 ToBFloat16(float value);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kI16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::kU64;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::kU32;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::kU16;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_TENSOR_DTYPE_H_
