#include "ops/kernels/integer_operands.h"

#include <algorithm>
#include <type_traits>

#include "ops/base/status.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/offsets.h"

namespace beamwright::ops {
namespace {

template <typename T>
std::vector<T> Expand(const Tensor* list, const Tensor& operand, bool rows) {
  const int rank = operand.rank();
  Shape dims(operand.shape().begin(), operand.shape().end());
  const size_t summed = static_cast<size_t>(rank == 1 ? 0 : rank - (rows ? 1 : 2));
  dims[summed] = 1;
  std::vector<T> result(static_cast<size_t>(NumElements(dims)), T{});
  if (list == nullptr || !list->has_value()) {
    return result;
  }
  // A list is one of the axis that stays.
  Shape strides(dims.size(), 0);
  const Shape own(list->shape().begin(), list->shape().end());
  const Shape dense = DenseStrides(own);
  for (size_t i = 0; i < own.size(); ++i) {
    const size_t from_right = own.size() == 1 && rows && rank > 1 ? 2 : own.size() - i;
    strides[dims.size() - from_right] = own[i] == 1 ? 0 : dense[i];
  }
  const std::vector<int64_t> offsets = Offsets(dims, strides);
  VisitDType(list->dtype(), [&](auto type) {
    using S = decltype(type);
    if constexpr (std::is_arithmetic_v<S>) {
      for (size_t i = 0; i < offsets.size(); ++i) {
        result[i] = static_cast<T>(list->data<S>()[offsets[i]]);
      }
    }
  });
  return result;
}

}  // namespace

absl::Status CheckPerRow(const InputInfo& list, absl::string_view name, const PartialShape& operand,
                         bool rows) {
  if (list.dtype == DType::kUndefined || !list.shape.has_rank() || !operand.has_rank() ||
      list.shape.rank() == 0) {
    return absl::OkStatus();
  }
  bool fits = list.shape.rank() <= std::max(operand.rank(), 1);
  for (int axis = 0; fits && axis < list.shape.rank(); ++axis) {
    const int from_right = list.shape.rank() - axis;
    const bool summed = list.shape.rank() > 1 && from_right == (rows ? 1 : 2);
    const int its_own = list.shape.rank() == 1 && rows ? 2 : from_right;
    const int64_t extent =
        operand.rank() == 1 || summed ? 1 : operand.dim(operand.rank() - its_own);
    const int64_t dim = list.shape.dim(axis);
    fits = dim == 1 || MergeExtents(dim, extent).ok();
  }
  return fits ? absl::OkStatus()
              : Invalid(name, ": shape ", list.shape.ToString(),
                        " is neither one value nor one for ",
                        rows ? "each row of a" : "each column of b");
}

absl::Status CheckBytes(const InputInfo& input, absl::string_view name, const InputInfo& zero,
                        absl::string_view zero_name) {
  BW_RETURN_IF_ERROR(ExpectType(input, name, {DType::kI8, DType::kU8}));
  return zero.dtype == DType::kUndefined ? absl::OkStatus()
                                         : ExpectType(zero, zero_name, {input.dtype});
}

std::vector<float> ExpandFloats(const Tensor* list, const Tensor& operand, bool rows) {
  return Expand<float>(list, operand, rows);
}

std::vector<int32_t> ExpandIntegers(const Tensor* list, const Tensor& operand, bool rows) {
  return Expand<int32_t>(list, operand, rows);
}

}  // namespace beamwright::ops
