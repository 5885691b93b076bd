#include "ops/graph/value_info.h"

#include <algorithm>

#include "ops/base/status.h"

namespace beamwright::ops {

absl::Status MergeInfo(absl::string_view what, const ValueInfo& declared, ValueInfo& inferred) {
  if (inferred.dtype == DType::kUndefined) {
    inferred.dtype = declared.dtype;
  } else if (declared.dtype != DType::kUndefined && declared.dtype != inferred.dtype) {
    return Invalid(what, " is declared ", Name(declared.dtype), " but is ", Name(inferred.dtype));
  }
  if (!declared.shape.has_rank()) {
    return absl::OkStatus();
  }
  if (!inferred.shape.has_rank()) {
    inferred.shape = declared.shape;
    return absl::OkStatus();
  }
  const auto conflict = [&] {
    return Invalid(what, " is declared ", declared.shape.ToString(), " but is ",
                   inferred.shape.ToString());
  };
  if (declared.shape.rank() != inferred.shape.rank()) {
    return conflict();
  }
  Shape merged = inferred.shape.dims();
  for (size_t axis = 0; axis < merged.size(); ++axis) {
    const int64_t dim = declared.shape.dims()[axis];
    if (dim == PartialShape::kDynamic) {
      continue;
    }
    if (merged[axis] != PartialShape::kDynamic && merged[axis] != dim) {
      return conflict();
    }
    merged[axis] = dim;
  }
  inferred.shape = PartialShape(merged);
  return absl::OkStatus();
}

PartialShape JoinShapes(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) {
    return PartialShape();
  }
  Shape dims = a.dims();
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    dims[axis] = dims[axis] == b.dims()[axis] ? dims[axis] : PartialShape::kDynamic;
  }
  return PartialShape(std::move(dims));
}

absl::Status SetParameter(absl::string_view what, Graph& body, size_t parameter, DType dtype,
                          const PartialShape& shape) {
  ValueInfo& declared = body.node(body.parameters[parameter]).outputs[0];
  ValueInfo given;
  given.names = declared.names;
  given.dtype = dtype;
  given.shape = shape;
  BW_RETURN_IF_ERROR(MergeInfo(what, declared, given));
  declared = std::move(given);
  return absl::OkStatus();
}

const ValueInfo& ResultInfo(const Graph& body, int index) {
  return body.info(body.node(body.results[static_cast<size_t>(index)]).inputs[0]);
}

bool MayHaveOneElement(const PartialShape& shape) {
  return !shape.has_rank() || std::all_of(shape.dims().begin(), shape.dims().end(),
                                          [](int64_t dim) { return dim == 1 || dim < 0; });
}

absl::StatusOr<KnownCondition> ReadCondition(absl::string_view what, const InputInfo& input) {
  if (input.dtype != DType::kBool || !MayHaveOneElement(input.shape)) {
    return Invalid(what, " is ", Name(input.dtype), input.shape.ToString(),
                   "; it must be one boolean");
  }
  if (input.value == nullptr) {
    return KnownCondition{};
  }
  return KnownCondition{true, *input.value->data<bool>()};
}

}  // namespace beamwright::ops
