// Element types: sizes and names (kEntries), and conversions of f32 to and from the two types of 16
// bits. ToHalf and ToBFloat16 round to nearest, ties to even; NaN stays NaN, and what is too large
// becomes infinity.
//
// kEntries is in the order of the enumerators of DType, so that Find needs no search.
#include "ops/tensor/dtype.h"

#include <array>

#include "absl/strings/ascii.h"
#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

struct Entry {
  DType dtype;
  absl::string_view name;
  absl::string_view alias;  // OpenVINO's port precision, lower case
  int64_t size;
};

constexpr std::array<Entry, 14> kEntries = {{
    {DType::kUndefined, "undefined", "unspecified", 0},
    {DType::kF32, "f32", "fp32", 4},
    {DType::kF16, "f16", "fp16", 2},
    {DType::kBF16, "bf16", "bf16", 2},
    {DType::kF64, "f64", "fp64", 8},
    {DType::kI64, "i64", "i64", 8},
    {DType::kI32, "i32", "i32", 4},
    {DType::kI16, "i16", "i16", 2},
    {DType::kI8, "i8", "i8", 1},
    {DType::kU64, "u64", "u64", 8},
    {DType::kU32, "u32", "u32", 4},
    {DType::kU16, "u16", "u16", 2},
    {DType::kU8, "u8", "u8", 1},
    {DType::kBool, "boolean", "bool", 1},
}};

const Entry& Find(DType dtype) { return kEntries[static_cast<size_t>(dtype)]; }

}  // namespace

int64_t SizeOf(DType dtype) { return Find(dtype).size; }

absl::string_view Name(DType dtype) { return Find(dtype).name; }

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const Entry& entry : kEntries) {
    if (entry.size > 0 && (lower == entry.name || lower == entry.alias)) {
      return entry.dtype;
    }
  }
  return Invalid("unknown element type '", name,
                 "'; known are f32, f16, bf16, f64, i64, i32, i16, i8, u64, u32, u16, u8, boolean");
}

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF64;
}

bool IsInteger(DType dtype) {
  return dtype != DType::kUndefined && dtype != DType::kBool && !IsFloat(dtype);
}

// The exponent's bias is 15 in f16 and 127 in f32, hence 112 more; the mantissa moves up by 23 - 10
// = 13 bits. Exponent 31 is infinity or NaN in f16, 255 in f32. Subnormal numbers of f16 are normal
// ones of f32: each step that brings the leading one into place is one less in the exponent.
float ToFloat(Half value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  uint32_t mantissa = value.bits & 0x3ffu;
  uint32_t bits = 0;
  if (exponent == 0x1f) {
    bits = sign | 0x7f800000u | (mantissa << 13);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else if (mantissa != 0) {
    // Subnormal: shift the leading one into place.
    uint32_t shift = 0;
    while ((mantissa & 0x400u) == 0) {
      mantissa <<= 1;
      ++shift;
    }
    bits = sign | ((113 - shift) << 23) | ((mantissa & 0x3ffu) << 13);
  } else {
    bits = sign;
  }
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

// Bits of f32: sign, 8 of exponent (bias 127), 23 of mantissa. Bits of f16: sign, 5 of exponent
// (bias 15), 10 of mantissa. Rounding may carry into the exponent, which is then right as well.
//
// 0x47800000 is 65536, 0x38800000 is 2^-14, the smallest normal f16. Exponent 102 of f32 is 2^-25,
// half of the smallest subnormal f16, 2^-24. The 65520 that lies between the largest f16, 65504,
// and 65536 is a tie, and rounds up to infinity by the carry.
Half ToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return {static_cast<uint16_t>(sign | 0x7e00u)};  // NaN
  }
  if (magnitude >= 0x47800000u) {
    return {static_cast<uint16_t>(sign | 0x7c00u)};  // >= 65536: infinity
  }
  // Below the smallest normal half the value is a multiple of 2^-24: shift the mantissa to it.
  uint32_t shift = 13;
  uint32_t mantissa = magnitude;
  uint32_t base = 0;
  if (magnitude < 0x38800000u) {
    const uint32_t exponent = magnitude >> 23;
    if (exponent < 102) {
      return {sign};  // below half of the smallest subnormal
    }
    shift = 126 - exponent;
    mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  } else {
    base = 112u << 10;
  }
  uint32_t rounded = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1u) != 0)) {
    ++rounded;
  }
  return {static_cast<uint16_t>(sign | (rounded - base))};
}

// The upper half of the f32, after half of its last place (less one if that is even) was added.
BFloat16 ToBFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  }
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<uint16_t>(bits >> 16)};
}

}  // namespace beamwright::ops
