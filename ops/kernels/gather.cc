// Operators that read slices and elements at indices: Gather, GatherElements and GatherND. Shapes
// are inferred even if the indices are not known; that all of them are inside the data is checked
// in each run, and the message names the first that is not, with its coordinates.

#include <algorithm>
#include <cstring>

#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/shared_weights.h"
#include "ops/kernels/strided_copy.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

// Gather: elements of `data` along an axis, by indices,
//
//   out[b..., i..., k..., j...] = data[b..., i..., indices[b..., k...], j...]
//
// with batch_dims axes b that data and indices share. Negative indices count from the end; others
// outside the axis are errors.
//
// GatherOp copies blocks of bytes of any type. If the data are an embedding table that is known at
// load, rows are read from a table that all graphs of a model share: TableKernel for f32 tables,
// kept in fewer bits where the model's precision allows it; ByteTableKernel for tables of 8-bit
// integers.

namespace {

struct GatherOp {
  using Options = int64_t;  // batch_dims

  static absl::StatusOr<Options> Parse(const Node& node) {
    return node.attributes.Int("batch_dims", 0);
  }

  // batch_dims and axis in [0, rank).
  struct Axes {
    int batch = 0;
    int axis = 0;
  };
  static absl::StatusOr<Axes> ResolveAxes(int64_t batch_dims, int64_t axis, int data_rank,
                                          int indices_rank) {
    BW_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis, data_rank));
    const int64_t batch = batch_dims < 0 ? batch_dims + indices_rank : batch_dims;
    if (batch < 0 || batch > indices_rank || batch > normal) {
      return Invalid("attribute batch_dims: ", batch_dims, " does not fit axis ", normal,
                     " and indices of rank ", indices_rank);
    }
    return Axes{static_cast<int>(batch), normal};
  }

  static absl::Status Shapes(Options batch_dims, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 3, 3, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[1], "indices", kIntegerTypes));
    BW_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ReadInt(inputs[2], "axis"));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    const PartialShape& data = inputs[0].shape;
    const PartialShape& indices = inputs[1].shape;
    if (!data.has_rank() || !indices.has_rank()) {
      return absl::OkStatus();
    }
    if (data.rank() == 0) {
      return Invalid("data: a scalar has no axis to gather along");
    }
    if (!axis.has_value()) {
      if (batch_dims >= 0 && data.rank() + indices.rank() - 1 >= batch_dims) {
        outputs[0].shape =
            DynamicShape(data.rank() + indices.rank() - 1 - static_cast<int>(batch_dims));
      }
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const Axes axes,
                        ResolveAxes(batch_dims, *axis, data.rank(), indices.rank()));
    Shape dims;
    for (int i = 0; i < axes.batch; ++i) {
      absl::StatusOr<int64_t> extent = MergeExtents(data.dim(i), indices.dim(i));
      if (!extent.ok()) {
        return Annotate(extent.status(), absl::StrCat("batch axis ", i, " of data and indices"));
      }
      dims.push_back(*extent);
    }
    dims.insert(dims.end(), data.dims().begin() + axes.batch, data.dims().begin() + axes.axis);
    dims.insert(dims.end(), indices.dims().begin() + axes.batch, indices.dims().end());
    dims.insert(dims.end(), data.dims().begin() + axes.axis + 1, data.dims().end());
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  static absl::Status Compute(Options batch_dims, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    const Tensor& indices = *inputs[1];
    BW_ASSIGN_OR_RETURN(const Axes axes,
                        ResolveAxes(batch_dims, IntAt(*inputs[2], 0), data.rank(), indices.rank()));
    const int64_t batches = Product(data.shape(), 0, axes.batch);
    const int64_t outer = Product(data.shape(), axes.batch, axes.axis);
    const int64_t extent = data.dim(axes.axis);
    const int64_t bytes = Product(data.shape(), axes.axis + 1, data.rank()) * SizeOf(data.dtype());
    const int64_t per_batch = Product(indices.shape(), axes.batch, indices.rank());
    BW_RETURN_IF_ERROR(CheckIndices(indices, "indices", -extent, extent));
    std::byte* out = outputs[0].mutable_bytes();
    for (int64_t batch = 0; batch < batches && bytes > 0; ++batch) {
      for (int64_t i = 0; i < outer; ++i) {
        const std::byte* in = data.bytes() + (batch * outer + i) * extent * bytes;
        for (int64_t k = 0; k < per_batch; ++k) {
          const int64_t index = IndexAt(indices, batch * per_batch + k, extent);
          std::memcpy(out, in + index * bytes, static_cast<size_t>(bytes));
          out += bytes;
        }
      }
    }
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const std::optional<int64_t> axis = ReadInt(inputs[2], "axis").value_or(std::nullopt);
    if (!inputs[0].shape.has_rank() || !inputs[1].shape.has_rank() || !IsFixed(rows[2]) ||
        IsExtent(rows[0]) || IsExtent(rows[1]) || !axis.has_value()) {
      return kMixedRows;
    }
    const int indices_rank = inputs[1].shape.rank();
    const absl::StatusOr<Axes> axes = ResolveAxes(node.attributes.Int("batch_dims", 0).value_or(0),
                                                  *axis, inputs[0].shape.rank(), indices_rank);
    if (!axes.ok()) {
      return kMixedRows;
    }
    const RowInfo& data = rows[0];
    const RowInfo& indices = rows[1];
    if (IsRows(data) && IsRows(indices)) {
      return data == indices && data.axis < axes->batch ? data : kMixedRows;
    }
    if (IsRows(indices)) {
      return indices.axis >= axes->batch
                 ? RowsAt(axes->axis + indices.axis - axes->batch, indices.factor)
                 : kMixedRows;
    }
    if (data.axis < axes->batch || data.axis == axes->axis) {
      return kMixedRows;
    }
    return data.axis < axes->axis ? data
                                  : RowsAt(data.axis - 1 + indices_rank - axes->batch, data.factor);
  }
};

// Gathers rows of a table that is known at load, of type and shape `info`, [rows, width].
// copy(row, to): writes a row of the table, whose elements take `row_bytes`.
template <typename Copy>
absl::Status GatherRows(const InputInfo& info, int64_t rows, int64_t row_bytes,
                        absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs,
                        const Copy& copy) {
  RuntimeResults results(outputs.size());
  RuntimeInfos infos = DescribeInputs(inputs);
  infos[0] = info;
  BW_RETURN_IF_ERROR(GatherOp::Shapes(0, infos, absl::MakeSpan(results)));
  BW_RETURN_IF_ERROR(PrepareOutputs(results, outputs));
  const Tensor& indices = *inputs[1];
  BW_RETURN_IF_ERROR(CheckIndices(indices, "indices", -rows, rows));
  std::byte* to = outputs[0].mutable_bytes();
  for (int64_t i = 0; i < indices.num_elements(); ++i, to += row_bytes) {
    copy(IndexAt(indices, i, rows), to);
  }
  return absl::OkStatus();
}

// Rows of a table that is known at load, as EmbeddingTable keeps it.
class TableKernel final : public Kernel {
 public:
  explicit TableKernel(const Tensor& table)
      : info_{table.dtype(), PartialShape(table.shape())},
        table_(ShareTable({table.data<float>(), table.dim(0), table.dim(1), table.dim(1)},
                          table.lifetime())) {}

  bool NeedsInput(size_t index) const override { return index != 0; }

  absl::Status Run(const ExecutionContext&, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    const auto width = static_cast<size_t>(table_->width());
    const auto row_bytes = static_cast<int64_t>(width * sizeof(float));
    return GatherRows(info_, table_->rows(), row_bytes, inputs, outputs,
                      [&](int64_t row, std::byte* to) {
                        table_->Read(row, {reinterpret_cast<float*>(to), width});
                      });
  }

 private:
  const InputInfo info_;  // type and shape
  const std::shared_ptr<const EmbeddingTable> table_;
};

// Whether a constant is a table of 8-bit integers that is worth sharing.
bool IsByteTable(const Tensor& table) {
  constexpr int64_t kLeastBytes = int64_t{1} << 20;
  return (table.dtype() == DType::kI8 || table.dtype() == DType::kU8) && table.rank() == 2 &&
         table.num_bytes() >= kLeastBytes;
}

// Rows of a table of 8-bit integers that is known at load, as a model in 8 bits has its embeddings:
// the table is held once, however many graphs read it.
class ByteTableKernel final : public Kernel {
 public:
  explicit ByteTableKernel(const Tensor& table)
      : info_{table.dtype(), PartialShape(table.shape())},
        table_(ShareBytes({reinterpret_cast<const int8_t*>(table.bytes()), table.dim(0),
                           table.dim(1), table.dim(1)},
                          table.lifetime())) {}

  bool NeedsInput(size_t index) const override { return index != 0; }

  absl::Status Run(const ExecutionContext&, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    return GatherRows(
        info_, table_->rows(), table_->width(), inputs, outputs,
        [&](int64_t row, std::byte* to) { table_->Read(row, reinterpret_cast<int8_t*>(to)); });
  }

 private:
  const InputInfo info_;  // type and shape
  const std::shared_ptr<const ByteTable> table_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeWithTable(const KernelRequest& request) {
  BW_ASSIGN_OR_RETURN(const int64_t batch_dims, GatherOp::Parse(request.node));
  const Tensor* const table = request.inputs[0].value;
  BW_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ReadInt(request.inputs[2], "axis"));
  const bool by_rows = batch_dims == 0 && (axis == 0 || axis == -2);
  if (table != nullptr && by_rows && EmbeddingTable::Fits(*table)) {
    return std::make_unique<TableKernel>(*table);
  }
  if (table != nullptr && by_rows && IsByteTable(*table)) {
    return std::make_unique<ByteTableKernel>(*table);
  }
  return std::make_unique<CodeKernel<GatherOp>>(batch_dims);
}

}  // namespace

const OperatorCode& GatherIn(Precision weights) {
  static constexpr OperatorCode kExact = CodeOf<GatherOp>(&GatherOp::Rows);
  static constexpr OperatorCode kWithTable = {&InferAs<GatherOp>, &MakeWithTable, &GatherOp::Rows};
  return weights == Precision::kF32 ? kExact : kWithTable;
}

// GatherElements and GatherND.
//
//   GatherElements   out[i, j, k] = data[i, indices[i, j, k], k]           (here for axis 1)
//   GatherND         out[b..., k..., :] = data[b..., indices[b..., k..., :], :]
//
// GatherElements walks through the indices and keeps the place in the data in step (WalkElements,
// with stride 0 along the axis); elements are copied as words of their size, whatever their type.
// GatherND makes an offset of each tuple (TupleOffsets) and copies a slice.
//
// Indices outside of the data are errors; negative ones count from the end. The rows of several
// requests stay apart if they are on an axis that no index names (Rows).

namespace {

// out[i, j, k] = data[i, indices[i, j, k], k], here for axis 1 of 3.
struct GatherElementsOp {
  using Options = int64_t;  // axis
  static absl::StatusOr<Options> Parse(const Node& node) {
    if (!node.attributes.Has("axis")) {
      return Invalid("attribute axis is required");
    }
    return node.attributes.Int("axis", 0);
  }

  static absl::Status Shapes(Options axis, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[1], "indices", kIntegerTypes));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = inputs[1].shape;
    return CheckElementIndices(inputs[0].shape, inputs[1].shape, axis);
  }

  static absl::Status Compute(Options axis, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    const Tensor& indices = *inputs[1];
    BW_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis, data.rank()));
    const int64_t extent = data.dim(normal);
    BW_RETURN_IF_ERROR(CheckIndices(indices, "indices", -extent, extent));
    const int64_t stride = Product(data.shape(), normal + 1, data.rank());
    VisitWord(data.dtype(), [&](auto type) {
      using T = decltype(type);
      const T* in = Words<T>(data);
      T* out = MutableWords<T>(outputs[0]);
      int64_t position = 0;
      ForEachRun(WalkElements(data.shape(), indices.shape(), normal),
                 [&](int64_t offset, int64_t count, int64_t step) {
                   for (int64_t i = 0; i < count; ++i, ++position) {
                     out[position] =
                         in[offset + i * step + IndexAt(indices, position, extent) * stride];
                   }
                 });
    });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    if (IsRows(rows[0])) {
      return RowsBesideAxis(node.attributes.Int("axis", 0).value_or(0), rows, inputs);
    }
    // Any element of fixed data may be taken along the axis, but only there.
    if (!IsFixed(rows[0]) || !inputs[1].shape.has_rank()) {
      return kMixedRows;
    }
    const absl::StatusOr<int> axis =
        NormalizeAxis(node.attributes.Int("axis", 0).value_or(0), inputs[1].shape.rank());
    return axis.ok() && *axis == rows[1].axis ? rows[1] : kMixedRows;
  }
};

// Slices of data that tuples of indices name, separately for each index of the leading batch axes.
struct GatherNdOp {
  struct Options {
    int64_t batch_dims = 0;
    bool joins_batch = false;  // GatherND-5: the batch axes become one
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.batch_dims, node.attributes.Int("batch_dims", 0));
    BW_ASSIGN_OR_RETURN(options.joins_batch, node.attributes.Bool("joins_batch", false));
    if (options.batch_dims < 0) {
      return Invalid("attribute batch_dims: ", options.batch_dims, " must be at least 0");
    }
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[1], "indices", kIntegerTypes));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    const PartialShape& data = inputs[0].shape;
    const PartialShape& indices = inputs[1].shape;
    if (!data.has_rank() || !indices.has_rank()) {
      return absl::OkStatus();
    }
    if (options.batch_dims >= std::min(data.rank(), indices.rank())) {
      return Invalid("attribute batch_dims: ", options.batch_dims,
                     " is not below the ranks of data ", data.ToString(), " and indices ",
                     indices.ToString());
    }
    const int batch = static_cast<int>(options.batch_dims);
    const int64_t length = indices.dim(indices.rank() - 1);
    if (length > data.rank() - batch) {
      return Invalid("indices: tuples of ", length, " for the ", data.rank() - batch,
                     " axes of data ", data.ToString(), " behind the batch");
    }
    Shape dims;
    for (int i = 0; i < batch; ++i) {
      absl::StatusOr<int64_t> extent = MergeExtents(data.dim(i), indices.dim(i));
      if (!extent.ok()) {
        return Annotate(extent.status(), absl::StrCat("batch axis ", i, " of data and indices"));
      }
      dims.push_back(*extent);
    }
    if (options.joins_batch && batch > 1) {
      dims = {PartialProduct(dims)};
    }
    if (length < 0) {
      return absl::OkStatus();
    }
    dims.insert(dims.end(), indices.dims().begin() + batch, indices.dims().end() - 1);
    dims.insert(dims.end(), data.dims().begin() + batch + length, data.dims().end());
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    const Tensor& indices = *inputs[1];
    const int batch = static_cast<int>(options.batch_dims);
    BW_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets,
                        TupleOffsets(indices, data.shape(), batch));
    const int named = batch + static_cast<int>(indices.dim(indices.rank() - 1));
    const int64_t bytes = Product(data.shape(), named, data.rank()) * SizeOf(data.dtype());
    const int64_t batch_bytes = Product(data.shape(), batch, named) * bytes;
    const int64_t per_batch = Product(indices.shape(), batch, indices.rank() - 1);
    std::byte* out = outputs[0].mutable_bytes();
    for (size_t i = 0; i < offsets.size() && bytes > 0; ++i) {
      const std::byte* in = data.bytes() + static_cast<int64_t>(i) / per_batch * batch_bytes;
      std::memcpy(out, in + offsets[i] * bytes, static_cast<size_t>(bytes));
      out += bytes;
    }
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const absl::StatusOr<Options> options = Parse(node);
    const PartialShape& indices = inputs[1].shape;
    if (!options.ok() || (options->joins_batch && options->batch_dims > 1) || !indices.has_rank()) {
      return kMixedRows;
    }
    const int64_t batch = options->batch_dims;
    if (IsRows(rows[0]) && IsRows(rows[1])) {
      return rows[0] == rows[1] && rows[0].axis < batch ? rows[0] : kMixedRows;
    }
    if (IsRows(rows[1])) {
      const bool inside = rows[1].axis >= batch && rows[1].axis < indices.rank() - 1;
      return IsFixed(rows[0]) && inside ? rows[1] : kMixedRows;
    }
    const int64_t length = indices.dim(indices.rank() - 1);
    return IsFixed(rows[1]) && length >= 0 && rows[0].axis >= batch + length
               ? RowsAt(rows[0].axis - static_cast<int>(batch + length) + indices.rank() - 1,
                        rows[0].factor)
               : kMixedRows;
  }
};

}  // namespace

absl::Status CheckElementIndices(const PartialShape& data, const PartialShape& indices,
                                 int64_t axis) {
  if (!data.has_rank()) {
    return absl::OkStatus();
  }
  BW_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis, data.rank()));
  bool fits = !indices.has_rank() || indices.rank() == data.rank();
  for (int i = 0; fits && indices.has_rank() && i < data.rank(); ++i) {
    fits = i == normal || data.dim(i) < 0 || indices.dim(i) <= data.dim(i);
  }
  return fits ? absl::OkStatus()
              : Invalid("indices: shape ", indices.ToString(), " is not inside that of data, ",
                        data.ToString(), ", on the axes other than ", normal);
}

StridedAxes WalkElements(const Shape& data, const Shape& indices, int axis) {
  const Shape strides = DenseStrides(data);
  StridedAxes axes;
  for (size_t i = 0; i < data.size(); ++i) {
    axes.Add(indices[i], static_cast<int>(i) == axis ? 0 : strides[i]);
  }
  return axes;
}

constinit const OperatorCode kGatherElements = CodeOf<GatherElementsOp>(&GatherElementsOp::Rows);
constinit const OperatorCode kGatherNd = CodeOf<GatherNdOp>(&GatherNdOp::Rows);

}  // namespace beamwright::ops
