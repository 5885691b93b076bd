// OneHot: a new axis of extent `depth`, on which the entry at each index has on_value and all
// others off_value. An index outside the depth sets no entry; with "normalize" negative ones count
// from the end. Compute fills the output with off_value, then writes one element for each index.
#include <algorithm>

#include "ops/kernels/indices.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
namespace {

struct OneHotOp {
  struct Options {
    int64_t axis = -1;
    bool from_end = false;  // negative indices count from the end of the new axis
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    if (!node.attributes.Has("axis")) {
      return Invalid("attribute axis is required");
    }
    BW_ASSIGN_OR_RETURN(options.axis, node.attributes.Int("axis", -1));
    BW_ASSIGN_OR_RETURN(std::string mode,
                        node.attributes.String("negative_indices_mode", "ignore_negative"));
    std::replace(mode.begin(), mode.end(), '-', '_');
    if (mode != "ignore_negative" && mode != "normalize") {
      return Invalid("attribute negative_indices_mode: '", mode,
                     "' is not supported, only ignore_negative and normalize");
    }
    options.from_end = mode == "normalize";
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 4, 4, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "indices", kIntegerTypes));
    BW_ASSIGN_OR_RETURN(const std::optional<int64_t> depth, ReadInt(inputs[1], "depth"));
    if (depth.value_or(0) < 0 || depth.value_or(0) > (int64_t{1} << 48)) {
      return Invalid("depth: ", *depth, " is negative or above 2^48");
    }
    BW_RETURN_IF_ERROR(ExpectType(inputs[3], "off_value", {inputs[2].dtype}));
    static constexpr absl::string_view kNames[] = {"on_value", "off_value"};
    for (size_t i = 0; i < 2; ++i) {
      const PartialShape& shape = inputs[i + 2].shape;
      if (shape.has_rank() && std::abs(PartialProduct(shape.dims())) != 1) {
        return Invalid(kNames[i], ": shape ", shape.ToString(), " must be a scalar");
      }
    }
    outputs[0].dtype = inputs[2].dtype;
    outputs[0].shape = PartialShape();
    const PartialShape& indices = inputs[0].shape;
    if (!indices.has_rank()) {
      return absl::OkStatus();
    }
    const absl::StatusOr<int> axis = NormalizeAxis(options.axis, indices.rank() + 1);
    if (!axis.ok()) {
      return Annotate(axis.status(), "attribute axis");
    }
    Shape dims = indices.dims();
    dims.insert(dims.begin() + *axis, depth.value_or(PartialShape::kDynamic));
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& indices = *inputs[0];
    Tensor& output = outputs[0];
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(options.axis, output.rank()));
    const int64_t depth = output.dim(axis);
    const int64_t inner = Product(output.shape(), axis + 1, output.rank());
    VisitWord(output.dtype(), [&](auto type) {
      using T = decltype(type);
      T* out = MutableWords<T>(output);
      std::fill(out, out + output.num_elements(), *Words<T>(*inputs[3]));
      for (int64_t i = 0; i < indices.num_elements(); ++i) {
        int64_t index = IntAt(indices, i);
        index += options.from_end && index < 0 ? depth : 0;
        if (index >= 0 && index < depth) {
          out[(i / inner * depth + index) * inner + i % inner] = *Words<T>(*inputs[2]);
        }
      }
    });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    if (!OnlyFirstHasRows(rows).has_value() || !inputs[0].shape.has_rank()) {
      return kMixedRows;
    }
    const absl::StatusOr<int> axis =
        NormalizeAxis(node.attributes.Int("axis", -1).value_or(-1), inputs[0].shape.rank() + 1);
    return axis.ok() ? RowsAt(rows[0].axis + (rows[0].axis >= *axis ? 1 : 0), rows[0].factor)
                     : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kOneHot = CodeOf<OneHotOp>(&OneHotOp::Rows);

}  // namespace beamwright::ops
