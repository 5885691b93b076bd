#include <limits>

#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

struct ShapeOfOp {
  using Options = DType;
  static absl::StatusOr<Options> Parse(const Node& node) { return ParseIndexType(node); }
  static absl::Status Shapes(Options dtype, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    outputs[0].dtype = dtype;
    outputs[0].shape =
        inputs[0].shape.has_rank() ? PartialShape({inputs[0].shape.rank()}) : DynamicShape(1);
    return absl::OkStatus();
  }
  static absl::Status Compute(Options dtype, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    for (int axis = 0; axis < inputs[0]->rank(); ++axis) {
      const int64_t extent = inputs[0]->dim(axis);
      if (dtype == DType::kI32 && extent > std::numeric_limits<int32_t>::max()) {
        return Invalid("data: extent ", extent, " of axis ", axis, " does not fit i32");
      }
      SetIndex(outputs[0], dtype, axis, extent);
    }
    return absl::OkStatus();
  }
};

}  // namespace

constinit const OperatorCode kShapeOf = CodeOf<ShapeOfOp>(&ShapeOfRows);

}  // namespace beamwright::ops
