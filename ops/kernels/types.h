// Which element types operators compute on, and how. Arithmetic takes all numeric types: integers
// wrap, f16 and bf16 are computed in f32 and rounded once per operator (WidensHalves in
// ops/kernels/operator_code.h), so that kernels never see them. Movement takes every type.
#ifndef BEAMWRIGHT_OPS_KERNELS_TYPES_H_
#define BEAMWRIGHT_OPS_KERNELS_TYPES_H_

#include <type_traits>

#include "ops/kernels/operator_code.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

inline constexpr DType kFloatTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};
inline constexpr DType kIntegerTypes[] = {DType::kI64, DType::kI32, DType::kI16, DType::kI8,
                                          DType::kU64, DType::kU32, DType::kU16, DType::kU8};
inline constexpr DType kNumericTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64,
                                          DType::kI64, DType::kI32, DType::kI16,  DType::kI8,
                                          DType::kU64, DType::kU32, DType::kU16,  DType::kU8};
inline constexpr DType kIntegerAndBoolTypes[] = {DType::kI64, DType::kI32, DType::kI16,
                                                 DType::kI8,  DType::kU64, DType::kU32,
                                                 DType::kU16, DType::kU8,  DType::kBool};
inline constexpr DType kNumericAndBoolTypes[] = {
    DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI64, DType::kI32, DType::kI16,
    DType::kI8,  DType::kU64, DType::kU32,  DType::kU16, DType::kU8,  DType::kBool};

inline bool IsHalf(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

// body(T()) for any type but f16 and bf16, which have been widened. body returns a Status.
template <typename Body>
absl::Status VisitArithmetic(DType dtype, Body&& body) {
  return VisitDType(dtype, [&](auto type) -> absl::Status {
    if constexpr (std::is_arithmetic_v<decltype(type)>) {
      return body(type);
    } else {
      CheckFailed(__FILE__, __LINE__, "f16 and bf16 are widened");
    }
  });
}

// The same for numeric types alone.
template <typename Body>
absl::Status VisitNumeric(DType dtype, Body&& body) {
  return VisitArithmetic(dtype, [&](auto type) -> absl::Status {
    if constexpr (!std::is_same_v<decltype(type), bool>) {
      return body(type);
    } else {
      CheckFailed(__FILE__, __LINE__, "the type is numeric");
    }
  });
}

// Integers and boolean.
template <typename Body>
absl::Status VisitIntegral(DType dtype, Body&& body) {
  return VisitArithmetic(dtype, [&](auto type) -> absl::Status {
    if constexpr (std::is_integral_v<decltype(type)>) {
      return body(type);
    } else {
      CheckFailed(__FILE__, __LINE__, "the type is an integer or boolean");
    }
  });
}

// body(T()) with the unsigned integer as wide as an element of `dtype`: for code that moves
// elements without looking at them, by way of Words below.
template <typename Body>
void VisitWord(DType dtype, Body&& body) {
  switch (SizeOf(dtype)) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    default:
      return body(uint64_t{});
  }
}
template <typename T>
const T* Words(const Tensor& tensor) {
  return reinterpret_cast<const T*>(tensor.bytes());
}
template <typename T>
T* MutableWords(Tensor& tensor) {
  return reinterpret_cast<T*>(tensor.mutable_bytes());
}

// f32 and f64.
template <typename Body>
absl::Status VisitFloat(DType dtype, Body&& body) {
  return dtype == DType::kF64 ? body(double{}) : body(float{});
}

// The type that T is added and multiplied in: floats themselves; integers as unsigned ones of at
// least 32 bits, so that they wrap (the result, cast to T) instead of being undefined.
template <typename T>
struct WrapTypeOf {
  using type = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
};
template <>
struct WrapTypeOf<float> {
  using type = float;
};
template <>
struct WrapTypeOf<double> {
  using type = double;
};
template <typename T>
using WrapType = typename WrapTypeOf<T>::type;

// Kernels that compute in f32 serve f16 and bf16 as well: inputs are widened, which is exact, and
// results rounded once. So an operator's numerics are written down once, and a 16-bit result is the
// f32 result's nearest neighbour.

// make(request) with every f16 and bf16 input as f32, constants included; f32 outputs of the kernel
// become the type of the first such input. Without one it is make(request) itself.
absl::StatusOr<std::unique_ptr<Kernel>> MakeWidened(const KernelRequest& request,
                                                    MakeFunction make);

template <MakeFunction kMake>
absl::StatusOr<std::unique_ptr<Kernel>> Widened(const KernelRequest& request) {
  return MakeWidened(request, kMake);
}

// An operator whose Compute knows f32 (and perhaps more) and whose Shapes allow f16 and bf16.
template <typename Op>
constexpr OperatorCode WidenedCodeOf(RowFunction rows) {
  return {&InferAs<Op>, &Widened<&MakeAs<Op>>, rows};
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_TYPES_H_
