#include "ops/kernels/relative_shift.h"

#include <cstring>

#include "ops/kernels/inputs.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

struct RelativeShiftOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return Options::Parse(node); }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    BW_ASSIGN_OR_RETURN(const std::optional<int64_t> known, ReadInt(inputs[1], "keys"));
    if (known.value_or(0) < 0) {
      return Invalid("keys: ", *known, " is negative");
    }
    const PartialShape& data = inputs[0].shape;
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = data;
    if (!data.has_rank()) {
      return absl::OkStatus();
    }
    if (data.rank() < 2) {
      return Invalid("data: shape ", data.ToString(), " has no axes of time and of places");
    }
    const int64_t keys = known.value_or(PartialShape::kDynamic);
    const int64_t time = data.dim(data.rank() - 2);
    const int64_t places = data.dim(data.rank() - 1);
    if (keys > 0 && time > 0 && places >= 0 && keys > places - (time - 1)) {
      return Invalid("keys: ", keys, " for ", time, " steps need ", time, " - 1 + ", keys,
                     " places; data are ", data.ToString());
    }
    Shape dims = data.dims();
    dims.back() = keys;
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    Tensor& out = outputs[0];
    if (out.num_elements() == 0) {
      return absl::OkStatus();
    }
    const int64_t time = data.dim(data.rank() - 2);
    const int64_t size = SizeOf(data.dtype());
    const int64_t row_bytes = data.dim(data.rank() - 1) * size;
    const int64_t window_bytes = out.dim(out.rank() - 1) * size;
    const int64_t rows = out.num_elements() * size / window_bytes;
    const std::byte* from = data.bytes();
    std::byte* to = out.mutable_bytes();
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(to, from + (time - 1 - row % time) * size, static_cast<size_t>(window_bytes));
      from += row_bytes;
      to += window_bytes;
    }
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    return OnlyFirstHasRows(rows).has_value() && inputs[0].shape.has_rank() &&
                   rows[0].axis < inputs[0].shape.rank() - 2
               ? rows[0]
               : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kRelativeShift = CodeOf<RelativeShiftOp>(&RelativeShiftOp::Rows);

}  // namespace beamwright::ops
