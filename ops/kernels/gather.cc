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
#include <cstring>

#include "ops/kernels/indices.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/shared_weights.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
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

}  // namespace beamwright::ops
