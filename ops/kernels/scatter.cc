// ScatterUpdate and ScatterND: a copy of `data` in which elements at given places are replaced by,
// or combined with, updates. Other scatter operators share the functions at the top.
//
//   ScatterUpdate   out[i..., indices[m...], j...] = updates[i..., m..., j...]
//   ScatterND       out[indices[k..., :], j...]    = updates[k..., j...]
//
// ScatterND's tuples of indices name the first axes (TupleOffsets makes offsets of them, and checks
// them). With a reduction (sum, sub, prod, min, max) an update is combined with what is at its
// place; several updates of one place are applied in order.
//
// Rows of several requests can be scattered together if the indices are the same for all of them
// and do not name the axis of the rows (Rows).
#include "ops/kernels/scatter.h"

#include <cstring>
#include <map>

#include "ops/kernels/index_movement.h"
#include "ops/kernels/indices.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {

absl::StatusOr<Reduction> ParseReduction(const Node& node, Reduction refused) {
  static const auto& names = *new std::map<std::string, Reduction>{
      {"none", Reduction::kNone}, {"sum", Reduction::kSum}, {"sub", Reduction::kSub},
      {"prod", Reduction::kProd}, {"min", Reduction::kMin}, {"max", Reduction::kMax},
      {"mean", Reduction::kMean}};
  BW_ASSIGN_OR_RETURN(const std::string name, node.attributes.String("reduction", "none"));
  const auto found = names.find(name);
  if (found == names.end() || found->second == refused) {
    return Invalid(
        "attribute reduction: '", name, "' is not supported, only none, sum, ",
        refused == Reduction::kSub ? "prod, min, max and mean" : "sub, prod, min and max");
  }
  return found->second;
}

absl::Status ScatterShapes(size_t num_inputs, Reduction reduction,
                           absl::Span<const InputInfo> inputs, absl::Span<ValueInfo> outputs) {
  BW_RETURN_IF_ERROR(ExpectCounts(inputs, num_inputs, num_inputs, outputs));
  BW_RETURN_IF_ERROR(ExpectType(inputs[1], "indices", kIntegerTypes));
  BW_RETURN_IF_ERROR(ExpectType(inputs[2], "updates", {inputs[0].dtype}));
  if (reduction == Reduction::kMean) {
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "data", kNumericTypes));
  }
  outputs[0].dtype = inputs[0].dtype;
  outputs[0].shape = inputs[0].shape;
  return absl::OkStatus();
}

absl::Status CheckUpdates(const PartialShape& updates, const PartialShape& expected) {
  bool fits = updates.rank() == expected.rank();
  for (int i = 0; fits && i < updates.rank(); ++i) {
    fits = MergeExtents(updates.dim(i), expected.dim(i)).ok();
  }
  return !updates.has_rank() || !expected.has_rank() || fits
             ? absl::OkStatus()
             : Invalid("updates: shape ", updates.ToString(), " must be ", expected.ToString());
}

void CopyAll(const Tensor& from, Tensor& to) {
  if (from.num_bytes() > 0) {
    std::memcpy(to.mutable_bytes(), from.bytes(), static_cast<size_t>(from.num_bytes()));
  }
}

namespace {

// data[..., indices[m, n], ...] = updates[..., m, n, ...]
struct ScatterUpdateOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return Options::Parse(node); }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ScatterShapes(4, Reduction::kNone, inputs, outputs));
    BW_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ReadInt(inputs[3], "axis"));
    const PartialShape& data = inputs[0].shape;
    const PartialShape& indices = inputs[1].shape;
    if (!axis.has_value() || !data.has_rank()) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, data.rank()));
    if (!indices.has_rank()) {
      return absl::OkStatus();
    }
    Shape dims(data.dims().begin(), data.dims().begin() + normal);
    dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
    dims.insert(dims.end(), data.dims().begin() + normal + 1, data.dims().end());
    return CheckUpdates(inputs[2].shape, PartialShape(std::move(dims)));
  }

  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    const Tensor& indices = *inputs[1];
    const Tensor& updates = *inputs[2];
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(IntAt(*inputs[3], 0), data.rank()));
    const int64_t extent = data.dim(axis);
    BW_RETURN_IF_ERROR(CheckIndices(indices, "indices", 0, extent));
    CopyAll(data, outputs[0]);
    const int64_t outer = Product(data.shape(), 0, axis);
    const int64_t bytes = Product(data.shape(), axis + 1, data.rank()) * SizeOf(data.dtype());
    const std::byte* in = updates.bytes();
    for (int64_t i = 0; i < outer && bytes > 0; ++i) {
      for (int64_t k = 0; k < indices.num_elements(); ++k) {
        std::memcpy(outputs[0].mutable_bytes() + (i * extent + IntAt(indices, k)) * bytes, in,
                    static_cast<size_t>(bytes));
        in += bytes;
      }
    }
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const std::optional<int64_t> axis = ReadInt(inputs[3], "axis").value_or(std::nullopt);
    if (!IsRows(rows[0]) || !IsFixed(rows[1]) || !IsRows(rows[2]) || !axis.has_value() ||
        !inputs[0].shape.has_rank() || !inputs[1].shape.has_rank()) {
      return kMixedRows;
    }
    const absl::StatusOr<int> normal = NormalizeAxis(*axis, inputs[0].shape.rank());
    if (!normal.ok() || *normal == rows[0].axis) {
      return kMixedRows;
    }
    const int in_updates =
        rows[0].axis < *normal ? rows[0].axis : rows[0].axis - 1 + inputs[1].shape.rank();
    return rows[2] == RowsAt(in_updates, rows[0].factor) ? rows[0] : kMixedRows;
  }
};

// data[indices[i, :], ...] = updates[i, ...]
struct ScatterNdOp {
  using Options = Reduction;
  static absl::StatusOr<Options> Parse(const Node& node) {
    return ParseReduction(node, Reduction::kMean);
  }
  static bool WidensHalves(Options reduction) { return reduction != Reduction::kNone; }

  static absl::Status Shapes(Options reduction, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ScatterShapes(3, reduction, inputs, outputs));
    const PartialShape& data = inputs[0].shape;
    const PartialShape& indices = inputs[1].shape;
    if (indices.has_rank() && indices.rank() == 0) {
      return Invalid("indices: a scalar names no place");
    }
    if (!data.has_rank() || !indices.has_rank() || indices.dim(indices.rank() - 1) < 0) {
      return absl::OkStatus();
    }
    const int64_t length = indices.dim(indices.rank() - 1);
    if (length > data.rank()) {
      return Invalid("indices: tuples of ", length, " for data of shape ", data.ToString());
    }
    Shape dims(indices.dims().begin(), indices.dims().end() - 1);
    dims.insert(dims.end(), data.dims().begin() + length, data.dims().end());
    // A single update may come as a scalar or as one element.
    const PartialShape& updates = inputs[2].shape;
    if (dims.empty() && updates.has_rank() && updates.rank() == 1) {
      dims = {1};
    }
    return CheckUpdates(updates, PartialShape(std::move(dims)));
  }

  static absl::Status Compute(Options reduction, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    const Tensor& indices = *inputs[1];
    BW_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, TupleOffsets(indices, data.shape(), 0));
    CopyAll(data, outputs[0]);
    const int named = static_cast<int>(indices.dim(indices.rank() - 1));
    const int64_t slice = Product(data.shape(), named, data.rank());
    if (reduction == Reduction::kNone) {
      const auto bytes = static_cast<size_t>(slice * SizeOf(data.dtype()));
      for (size_t i = 0; i < offsets.size() && bytes > 0; ++i) {
        std::memcpy(outputs[0].mutable_bytes() + static_cast<size_t>(offsets[i]) * bytes,
                    inputs[2]->bytes() + i * bytes, bytes);
      }
      return absl::OkStatus();
    }
    return VisitArithmetic(data.dtype(), [&](auto type) {
      using T = decltype(type);
      const T* update = inputs[2]->data<T>();
      for (const int64_t offset : offsets) {
        T* out = outputs[0].mutable_data<T>() + offset * slice;
        for (int64_t i = 0; i < slice; ++i) {
          out[i] = Reduced(reduction, out[i], *update++);
        }
      }
      return absl::OkStatus();
    });
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const PartialShape& indices = inputs[1].shape;
    if (!IsRows(rows[0]) || !IsFixed(rows[1]) || !IsRows(rows[2]) || !indices.has_rank() ||
        indices.rank() == 0) {
      return kMixedRows;
    }
    const int64_t length = indices.dim(indices.rank() - 1);
    const int in_updates = rows[0].axis - static_cast<int>(length) + indices.rank() - 1;
    return length >= 0 && rows[0].axis >= length && rows[2] == RowsAt(in_updates, rows[0].factor)
               ? rows[0]
               : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kScatterUpdate = CodeOf<ScatterUpdateOp>(&ScatterUpdateOp::Rows);
constinit const OperatorCode kScatterNd = CodeOf<ScatterNdOp>(&ScatterNdOp::Rows);

}  // namespace beamwright::ops
