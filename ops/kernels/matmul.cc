#include "ops/kernels/matmul.h"

#include <algorithm>

#include "ops/kernels/broadcast_loop.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/math.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {

void MultiplyRow(const float* a, int64_t a_stride, const StridedMatrix& b, bool transposed,
                 int64_t depth, absl::Span<float> out) {
  const int64_t columns = static_cast<int64_t>(out.size());
  float* const sums = out.data();
  if (transposed) {
    for (int64_t n = 0; n < columns; ++n) {
      const float* column = b.data + n * b.column_stride;
      sums[n] = a_stride == 1
                    ? LaneSum(depth, [&](int64_t k) { return a[k] * column[k]; })
                    : LaneSum(depth, [&](int64_t k) { return a[k * a_stride] * column[k]; });
    }
    return;
  }
  std::fill(out.begin(), out.end(), 0.0f);
  for (int64_t k = 0; k < depth; ++k) {
    const float factor = a[k * a_stride];
    const float* row = b.data + k * b.row_stride;
    for (int64_t n = 0; n < columns; ++n) {
      sums[n] += factor * row[n];
    }
  }
}

namespace {

struct MatMulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};

// Shapes with operands of rank 1 made matrices ([1, K] and [K, 1]; transposing a vector is
// nothing).
struct Operands {
  Shape a, b;  // rank >= 2, as if not transposed: [.., M, K] and [.., K, N]
  bool a_vector = false;
  bool b_vector = false;
};

Operands Normalize(const MatMulOptions& options, Shape a, Shape b) {
  Operands result{std::move(a), std::move(b)};
  result.a_vector = result.a.size() == 1;
  result.b_vector = result.b.size() == 1;
  if (result.a_vector) {
    result.a.insert(result.a.begin(), 1);
  } else if (options.transpose_a) {
    std::swap(result.a[result.a.size() - 1], result.a[result.a.size() - 2]);
  }
  if (result.b_vector) {
    result.b.push_back(1);
  } else if (options.transpose_b) {
    std::swap(result.b[result.b.size() - 1], result.b[result.b.size() - 2]);
  }
  return result;
}

PartialShape BatchDims(const Shape& shape) {
  return PartialShape(Shape(shape.begin(), shape.end() - 2));
}

struct MatMulOp {
  using Options = MatMulOptions;

  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.transpose_a, node.attributes.Bool("transpose_a", false));
    BW_ASSIGN_OR_RETURN(options.transpose_b, node.attributes.Bool("transpose_b", false));
    return options;
  }

  static bool WidensHalves(const Options&) { return true; }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "input 0", {DType::kF32, DType::kF16, DType::kBF16}));
    BW_RETURN_IF_ERROR(ExpectType(inputs[1], "input 1", {inputs[0].dtype}));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    const PartialShape& a = inputs[0].shape;
    const PartialShape& b = inputs[1].shape;
    if ((a.has_rank() && a.rank() == 0) || (b.has_rank() && b.rank() == 0)) {
      return Invalid("shapes ", a.ToString(), " and ", b.ToString(), ": a scalar has no product");
    }
    if (!a.has_rank() || !b.has_rank()) {
      return absl::OkStatus();
    }
    const Operands operands = Normalize(options, a.dims(), b.dims());
    const int64_t depth_b = operands.b[operands.b.size() - 2];
    absl::StatusOr<PartialShape> batch =
        BroadcastPartial(BatchDims(operands.a), BatchDims(operands.b));
    if (!MergeExtents(operands.a.back(), depth_b).ok() || !batch.ok()) {
      return Invalid("shapes ", a.ToString(), options.transpose_a ? " (transposed)" : "", " and ",
                     b.ToString(), options.transpose_b ? " (transposed)" : "", " do not multiply");
    }
    Shape dims = batch->dims();
    if (!operands.a_vector) {
      dims.push_back(operands.a[operands.a.size() - 2]);
    }
    if (!operands.b_vector) {
      dims.push_back(operands.b.back());
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Operands operands = Normalize(options, inputs[0]->shape(), inputs[1]->shape());
    const int64_t rows = operands.a[operands.a.size() - 2];
    const int64_t depth = operands.a.back();
    const int64_t columns = operands.b.back();
    const PartialShape batch_a = BatchDims(operands.a);
    const PartialShape batch_b = BatchDims(operands.b);
    BW_ASSIGN_OR_RETURN(const Shape batch, BroadcastShapes(batch_a.dims(), batch_b.dims()));
    // Which matrix of each operand belongs to a matrix of the result.
    absl::InlinedVector<std::pair<int64_t, int64_t>, 16> pairs;
    const absl::Span<const int64_t> shapes[] = {batch_a.dims(), batch_b.dims()};
    BroadcastPlan(batch, shapes)
        .ForEachRow([&](int64_t, int64_t count, const auto& at, const auto& step) {
          for (int64_t i = 0; i < count; ++i) {
            pairs.emplace_back(at[0] + i * step[0], at[1] + i * step[1]);
          }
        });
    const bool a_transposed = options.transpose_a && !operands.a_vector;
    const bool b_transposed = options.transpose_b || operands.b_vector;
    const int64_t items = static_cast<int64_t>(pairs.size()) * rows;
    float* const out = outputs[0].mutable_data<float>();
    ParallelFor(context.num_threads, items, items * depth * columns, [&](int64_t item) {
      const auto [matrix_a, matrix_b] = pairs[static_cast<size_t>(item / rows)];
      const int64_t row = item % rows;
      const float* a =
          inputs[0]->data<float>() + matrix_a * rows * depth + (a_transposed ? row : row * depth);
      const StridedMatrix b{inputs[1]->data<float>() + matrix_b * depth * columns,
                            b_transposed ? 1 : columns, b_transposed ? depth : 1};
      MultiplyRow(a, a_transposed ? rows : 1, b, b_transposed, depth,
                  {out + item * columns, static_cast<size_t>(columns)});
    });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs);
};

// All rows of the first operand times a weight that was packed at load.
class PackedKernel final : public Kernel {
 public:
  PackedKernel(MatMulOptions options, const Tensor& weight)
      : options_(options),
        packed_({weight.data<float>(), weight.dim(0), weight.dim(1), weight.dim(1)},
                options.transpose_b) {}

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    RuntimeResults results(outputs.size());
    BW_RETURN_IF_ERROR(MatMulOp::Shapes(options_, DescribeInputs(inputs), absl::MakeSpan(results)));
    BW_RETURN_IF_ERROR(PrepareOutputs(results, outputs));
    const int64_t depth = packed_.depth();
    const int64_t columns = packed_.columns();
    const int64_t rows = NumElements(inputs[0]->shape()) / std::max<int64_t>(depth, 1);
    if (outputs[0].num_elements() == 0) {
      return absl::OkStatus();
    }
    return packed_.Run(context.num_threads, {inputs[0]->data<float>(), rows, depth, depth}, {},
                       {outputs[0].mutable_data<float>(), rows, columns, columns});
  }

 private:
  const MatMulOptions options_;
  const PackedMatMul packed_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeMatMul(const KernelRequest& request) {
  BW_ASSIGN_OR_RETURN(const MatMulOptions options, MatMulOp::Parse(request.node));
  const Tensor* weight = request.inputs.size() == 2 ? request.inputs[1].value : nullptr;
  const PartialShape& a = request.inputs[0].shape;
  const bool a_is_transposed = options.transpose_a && (!a.has_rank() || a.rank() > 1);
  if (weight != nullptr && weight->dtype() == DType::kF32 && weight->rank() == 2 &&
      weight->num_elements() > 0 && !a_is_transposed) {
    return std::make_unique<PackedKernel>(options, *weight);
  }
  return std::make_unique<CodeKernel<MatMulOp>>(options);
}

// Where the row axis of one operand stands in the product, counted from the right of the product as
// if both operands were matrices; 0 if it is summed over. `left`: the first operand.
int FromRight(const RowInfo& rows, int rank, bool transposed, bool left) {
  if (rank == 1) {
    return 0;
  }
  int distance = rank - rows.axis;  // 1: last axis, 2: the one before
  if (distance <= 2 && transposed) {
    distance = 3 - distance;
  }
  if (distance > 2) {
    return distance;
  }
  return left ? (distance == 2 ? 2 : 0) : (distance == 1 ? 1 : 0);
}

RowInfo MatMulOp::Rows(const Node& node, absl::Span<const RowInfo> rows,
                       absl::Span<const InputInfo> inputs) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  const absl::StatusOr<Options> options = Parse(node);
  if (!options.ok() || !inputs[0].shape.has_rank() || !inputs[1].shape.has_rank() ||
      IsExtent(rows[0]) || IsExtent(rows[1])) {
    return kMixedRows;
  }
  int from_right = 0;
  int64_t factor = 1;
  for (size_t i = 0; i < 2; ++i) {
    if (!IsRows(rows[i])) {
      continue;
    }
    const int distance = FromRight(rows[i], inputs[i].shape.rank(),
                                   i == 0 ? options->transpose_a : options->transpose_b, i == 0);
    if (distance == 0 ||
        (from_right != 0 && (distance != from_right || factor != rows[i].factor))) {
      return kMixedRows;
    }
    from_right = distance;
    factor = rows[i].factor;
  }
  for (size_t i = 0; i < 2; ++i) {
    const PartialShape& shape = inputs[i].shape;
    if (IsFixed(rows[i]) && from_right > 2 && shape.rank() >= from_right &&
        shape.dim(shape.rank() - from_right) != 1) {
      return kMixedRows;
    }
  }
  int rank = std::max({inputs[0].shape.rank(), inputs[1].shape.rank(), 2});
  int axis = rank - from_right;
  // A vector's axis is missing from the product.
  if (inputs[1].shape.rank() == 1 && from_right == 1) {
    return kMixedRows;
  }
  if (inputs[0].shape.rank() == 1 && from_right == 1) {
    axis -= 1;  // the product lacks the second axis from the right
  }
  return RowsAt(axis, factor);
}

}  // namespace

constinit const OperatorCode kMatMul = {&InferAs<MatMulOp>, &MakeMatMul, &MatMulOp::Rows};

}  // namespace beamwright::ops
