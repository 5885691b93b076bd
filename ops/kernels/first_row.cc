#include <cstring>

#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

struct FirstRowOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return Options::Parse(node); }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    const PartialShape& shape = inputs[0].shape;
    if (!shape.has_rank()) {
      return absl::OkStatus();
    }
    if (shape.rank() == 0 || shape.dim(0) == 0) {
      return Invalid("shape ", shape.ToString(), " has no first row");
    }
    outputs[0].shape = PartialShape(Shape(shape.dims().begin() + 1, shape.dims().end()));
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    std::memcpy(outputs[0].mutable_bytes(), inputs[0]->bytes(),
                static_cast<size_t>(outputs[0].num_bytes()));
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows, absl::Span<const InputInfo>) {
    const bool stands_for_all = IsFixed(rows[0]) || rows[0] == RowsAt(0, 1);
    return stands_for_all ? kFixedRows : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kFirstRow = CodeOf<FirstRowOp>(&FirstRowOp::Rows);

}  // namespace beamwright::ops
