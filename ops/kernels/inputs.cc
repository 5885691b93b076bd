// Checks and readers that operators share when they infer shapes: the number of inputs
// (ExpectCounts), types (ExpectType), ranks; small integer inputs whose values may be known
// (ReadInts, ReadInt, ReadAxes); and arithmetic on extents that may be unknown (BroadcastPartial,
// MergeExtents, PartialProduct). Errors name the input, since a user sees them with the node's name
// before.
#include "ops/kernels/inputs.h"

#include <algorithm>
#include <limits>
#include <string>

#include "ops/base/status.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

absl::Status ExpectCounts(absl::Span<const InputInfo> inputs, size_t least, size_t most,
                          absl::Span<ValueInfo> outputs, size_t num_outputs) {
  if (inputs.size() < least || inputs.size() > most) {
    return Invalid("has ", inputs.size(), " inputs, expected ", least,
                   most == least ? "" : absl::StrCat(" to ", most));
  }
  for (size_t i = 0; i < least; ++i) {
    if (inputs[i].dtype == DType::kUndefined) {
      return Invalid("input ", i, " is required and absent");
    }
  }
  if (outputs.size() != num_outputs) {
    return Invalid("has ", outputs.size(), " outputs, expected ", num_outputs);
  }
  return absl::OkStatus();
}

bool Present(absl::Span<const InputInfo> inputs, size_t index) {
  return index < inputs.size() && inputs[index].dtype != DType::kUndefined;
}

absl::Status ExpectType(const InputInfo& input, absl::string_view name,
                        absl::Span<const DType> allowed) {
  if (std::find(allowed.begin(), allowed.end(), input.dtype) != allowed.end()) {
    return absl::OkStatus();
  }
  std::string names;
  for (const DType dtype : allowed) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", Name(dtype));
  }
  const bool is_wide = input.dtype == DType::kF64 &&
                       std::find(allowed.begin(), allowed.end(), DType::kF32) != allowed.end();
  return Invalid(name, ": element type ", Name(input.dtype), " is not supported, only ", names,
                 is_wide ? "; export the model in f32 (in PyTorch after model.float())" : "");
}

absl::Status ExpectRank(const InputInfo& input, absl::string_view name, int rank) {
  if (input.shape.has_rank() && input.shape.rank() != rank) {
    return Invalid(name, ": shape ", input.shape.ToString(), " must have rank ", rank);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ReadInts(const InputInfo& input, absl::string_view name, Ints& values) {
  BW_RETURN_IF_ERROR(ExpectType(input, name, kIntegerTypes));
  if (input.shape.has_rank() && input.shape.rank() > 1) {
    return Invalid(name, ": shape ", input.shape.ToString(), " must have rank 0 or 1");
  }
  if (input.value == nullptr || !input.value->has_value()) {
    return false;
  }
  values.resize(static_cast<size_t>(input.value->num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = IntAt(*input.value, static_cast<int64_t>(i));
  }
  return true;
}

absl::StatusOr<std::optional<int64_t>> ReadInt(const InputInfo& input, absl::string_view name) {
  Ints values;
  BW_ASSIGN_OR_RETURN(const bool known, ReadInts(input, name, values));
  const int64_t length = known ? static_cast<int64_t>(values.size()) : ListLength(input);
  if (length >= 0 && length != 1) {
    return Invalid(name, ": has ", length, " elements, expected 1");
  }
  return known ? std::optional<int64_t>(values[0]) : std::nullopt;
}

absl::StatusOr<std::optional<Ints>> ReadAxes(const InputInfo& input, absl::string_view name,
                                             int rank) {
  Ints values;
  BW_ASSIGN_OR_RETURN(const bool known, ReadInts(input, name, values));
  if (!known) {
    return std::nullopt;
  }
  absl::StatusOr<Ints> axes = NormalizeAxes(values, rank);
  if (!axes.ok()) {
    return Annotate(axes.status(), name);
  }
  return *std::move(axes);
}

int64_t ListLength(const InputInfo& input) {
  if (!input.shape.has_rank()) {
    return PartialShape::kDynamic;
  }
  return input.shape.rank() == 0 ? 1 : input.shape.dim(0);
}

absl::StatusOr<PartialShape> BroadcastPartial(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank()) {
    return PartialShape();
  }
  const int rank = std::max(a.rank(), b.rank());
  Shape dims(static_cast<size_t>(rank), 1);
  for (int i = 1; i <= rank; ++i) {
    const int64_t left = i <= a.rank() ? a.dim(a.rank() - i) : 1;
    const int64_t right = i <= b.rank() ? b.dim(b.rank() - i) : 1;
    int64_t& dim = dims[static_cast<size_t>(rank - i)];
    if (left == right || right == 1) {
      dim = left;
    } else if (left == 1) {
      dim = right;
    } else if (left < 0 || right < 0) {
      dim = std::max(left, right);  // the unknown one is 1 or equal to the other
    } else {
      return Invalid("shapes ", a.ToString(), " and ", b.ToString(), " do not broadcast");
    }
  }
  return PartialShape(std::move(dims));
}

absl::StatusOr<int64_t> MergeExtents(int64_t a, int64_t b) {
  if (a >= 0 && b >= 0 && a != b) {
    return Invalid("extents ", a, " and ", b, " differ");
  }
  return std::max(a, b);
}

absl::StatusOr<Ints> NormalizeAxes(absl::Span<const int64_t> axes, int rank) {
  Ints result;
  for (const int64_t axis : axes) {
    BW_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis, rank));
    if (std::find(result.begin(), result.end(), normal) != result.end()) {
      return Invalid("axis ", axis, " is named twice");
    }
    result.push_back(normal);
  }
  return result;
}

int64_t OtherIntAt(const Tensor& tensor, int64_t i) {
  return VisitDType(tensor.dtype(), [&](auto type) -> int64_t {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) {
      constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
      const T value = tensor.data<T>()[i];
      return std::is_same_v<T, uint64_t> && static_cast<uint64_t>(value) > kMost
                 ? static_cast<int64_t>(kMost)
                 : static_cast<int64_t>(value);
    } else {
      CheckFailed(__FILE__, __LINE__, "the tensor holds integers");
    }
  });
}

absl::StatusOr<DType> ParseIndexType(const Node& node) {
  BW_ASSIGN_OR_RETURN(const std::string name, node.attributes.String("output_type", "i64"));
  const absl::StatusOr<DType> dtype = ParseDType(name);
  if (dtype.ok() && (*dtype == DType::kI64 || *dtype == DType::kI32)) {
    return *dtype;
  }
  return Invalid("attribute output_type: '", name, "' is not supported, only i64 and i32");
}

PartialShape DynamicShape(int rank) {
  return PartialShape(Shape(static_cast<size_t>(rank), PartialShape::kDynamic));
}

int64_t PartialProduct(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  bool known = true;
  for (const int64_t dim : dims) {
    if (dim == 0) {
      return 0;
    }
    known = known && dim > 0;
    product *= dim > 0 ? dim : 1;
  }
  return known ? product : PartialShape::kDynamic;
}

}  // namespace beamwright::ops
