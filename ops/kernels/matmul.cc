// MatMul in three kernels, chosen at load (MakeMatMul):
//
// 1. PackedKernel: the second operand is a constant f32 matrix. It is packed once (SharePacked),
//    and all rows of all batches are one GEMM. BiasedProduct is the same with a bias and a ReLU,
//    applied to each panel of the result while it is in the cache (Finish).
// 2. MultiplyF32: both operands are computed, as in attention. PlanProduct lists the pairs of
//    matrices that are multiplied. The pairs are sorted by their second matrix, so that rows which
//    meet the same matrix are computed together, at most kMostFewRows at a time (row_products.cc):
//    in a step, all hypotheses of a request read its keys once.
// 3. Multiply, for other types: a plain loop for each row; integers wrap.
//
// A row's bits do not depend on the block that it is in: each kernel has one order of sums.
#include "ops/kernels/matmul.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/base/status.h"
#include "ops/base/step_profile.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/elementwise_loops.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/shared_weights.h"
#include "ops/kernels/tiles.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

// Shapes of matrix products, as NumPy's matmul has them, with transposed operands: the shape of the
// result (ProductShape), what to compute (PlanProduct), and where the rows of requests are in the
// result (ProductRows).
//
// Normalize brings both operands to [.., M, K] and [.., K, N]. A vector gets an axis of extent 1,
// which the result lacks again. Axes before the last two broadcast: PlanProduct lists the pairs of
// matrices to multiply.
//
// ProductRows counts axes from the right, since operands may have different ranks. If both operands
// have rows, these must be on the same axis of the result. Rows on an axis that is summed over mix
// requests.

namespace {

// Shapes of rank 2 or more, as if not transposed: [.., M, K] and [.., K, N].
struct Operands {
  Shape a, b;
  bool a_vector = false;
  bool b_vector = false;
};

Operands Normalize(const ProductOptions& options, Shape a, Shape b) {
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

// The place of one operand's row axis in the product, counted from the right of the product as
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

}  // namespace

absl::StatusOr<PartialShape> ProductShape(const ProductOptions& options, const PartialShape& a,
                                          const PartialShape& b) {
  if ((a.has_rank() && a.rank() == 0) || (b.has_rank() && b.rank() == 0)) {
    return Invalid("shapes ", a.ToString(), " and ", b.ToString(), ": a scalar has no product");
  }
  if (!a.has_rank() || !b.has_rank()) {
    return PartialShape();
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
  return PartialShape(std::move(dims));
}

ProductPlan PlanProduct(const ProductOptions& options, const Shape& a, const Shape& b) {
  const Operands operands = Normalize(options, a, b);
  ProductPlan plan;
  plan.rows = operands.a[operands.a.size() - 2];
  plan.depth = operands.a.back();
  plan.columns = operands.b.back();
  plan.a_transposed = options.transpose_a && !operands.a_vector;
  plan.b_transposed = options.transpose_b || operands.b_vector;
  const PartialShape batch_a = BatchDims(operands.a);
  const PartialShape batch_b = BatchDims(operands.b);
  const absl::StatusOr<PartialShape> batch = BroadcastPartial(batch_a, batch_b);
  const absl::Span<const int64_t> shapes[] = {batch_a.dims(), batch_b.dims()};
  BroadcastPlan(batch.ok() ? batch->dims() : Shape{0}, shapes)
      .ForEachRow([&](int64_t, int64_t count, const PerOperand& at, const PerOperand& step) {
        for (int64_t i = 0; i < count; ++i) {
          plan.pairs.emplace_back(at[0] + i * step[0], at[1] + i * step[1]);
        }
      });
  return plan;
}

RowInfo ProductRows(const ProductOptions& options, absl::Span<const RowInfo> rows,
                    absl::Span<const InputInfo> inputs) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  if (!inputs[0].shape.has_rank() || !inputs[1].shape.has_rank() || IsExtent(rows[0]) ||
      IsExtent(rows[1])) {
    return kMixedRows;
  }
  int from_right = 0;
  int64_t factor = 1;
  for (size_t i = 0; i < 2; ++i) {
    if (!IsRows(rows[i])) {
      continue;
    }
    const int distance = FromRight(rows[i], inputs[i].shape.rank(),
                                   i == 0 ? options.transpose_a : options.transpose_b, i == 0);
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

namespace {

// A product in f32 of two computed operands.
void MultiplyF32(const ProductPlan& plan, int num_threads, const float* left, const float* right,
                 float* out) {
  // 1. The pairs in the order of their second matrix.
  const auto matrix_b = [&plan](int64_t pair) {
    return plan.pairs[static_cast<size_t>(pair)].second;
  };
  absl::InlinedVector<int64_t, 16> order(plan.pairs.size());
  std::iota(order.begin(), order.end(), 0);
  const auto is_before = [&](int64_t x, int64_t y) { return matrix_b(x) < matrix_b(y); };
  if (!std::is_sorted(order.begin(), order.end(), is_before)) {
    std::stable_sort(order.begin(), order.end(), is_before);
  }
  // 2. Blocks of rows that meet the same matrix, even in size, enough of them for all threads.
  const int64_t num_rows = static_cast<int64_t>(order.size()) * plan.rows;
  const int threads = SharingFor(num_threads, num_rows * plan.depth * plan.columns);
  const int64_t most = std::clamp<int64_t>(CeilDiv(num_rows, threads), 1, kMostFewRows);
  struct Block {
    int64_t first;  // of the rows of all pairs, in this order
    int64_t count;
  };
  absl::InlinedVector<Block, 16> blocks;
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = std::find_if(begin, order.end(),
                                  [&](int64_t pair) { return matrix_b(pair) != matrix_b(*begin); });
    const int64_t first = (begin - order.begin()) * plan.rows;
    const int64_t rows = (end - begin) * plan.rows;
    const int64_t tile = EvenTile(rows, most);
    for (int64_t row = 0; row < rows; row += tile) {
      blocks.push_back({first + row, std::min(tile, rows - row)});
    }
    begin = end;
  }
  // 3. The rows of each block; columns of a transposed operand are copied to rows.
  ParallelFor(threads, static_cast<int64_t>(blocks.size()), [&](int64_t i) {
    const Block& block = blocks[static_cast<size_t>(i)];
    FewRows rows;
    rows.count = static_cast<int>(block.count);
    int64_t b = 0;
    for (int64_t r = 0; r < block.count; ++r) {
      const int64_t pair = order[static_cast<size_t>((block.first + r) / plan.rows)];
      const int64_t row = (block.first + r) % plan.rows;
      const float* const a =
          left + plan.pairs[static_cast<size_t>(pair)].first * plan.rows * plan.depth;
      rows.a[r] = a + row * plan.depth;
      if (plan.a_transposed) {
        float* const copy = ThreadMatrix<FewRows, 0>(kMostFewRows, plan.depth).row(r);
        for (int64_t k = 0; k < plan.depth; ++k) {
          copy[k] = a[k * plan.rows + row];
        }
        rows.a[r] = copy;
      }
      rows.out[r] = out + (pair * plan.rows + row) * plan.columns;
      b = matrix_b(pair);
    }
    MultiplyRows(rows,
                 {right + b * plan.depth * plan.columns,
                  plan.b_transposed ? plan.depth : plan.columns, plan.b_transposed},
                 plan.depth, plan.columns);
  });
}

// A row of a product in another type: terms in ascending order; integers wrap in T.
template <typename T>
void MultiplyRowOf(const T* a, int64_t a_stride, const T* b, int64_t b_row, int64_t b_column,
                   int64_t depth, absl::Span<T> out) {
  using Total = typename std::conditional_t<std::is_integral_v<T>, std::type_identity<uint64_t>,
                                            std::type_identity<T>>::type;
  for (size_t n = 0; n < out.size(); ++n) {
    const T* column = b + static_cast<int64_t>(n) * b_column;
    Total sum{};
    for (int64_t k = 0; k < depth; ++k) {
      sum += static_cast<Total>(a[k * a_stride]) * static_cast<Total>(column[k * b_row]);
    }
    out[n] = static_cast<T>(sum);
  }
}

struct MatMulOp {
  using Options = ProductOptions;

  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.transpose_a, node.attributes.Bool("transpose_a", false));
    BW_ASSIGN_OR_RETURN(options.transpose_b, node.attributes.Bool("transpose_b", false));
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    if (!IsFloat(inputs[0].dtype) && !IsInteger(inputs[0].dtype)) {
      return Invalid("input 0: element type ", Name(inputs[0].dtype),
                     " is not supported, only integers and floats");
    }
    if (inputs[1].dtype != inputs[0].dtype) {
      return Invalid("input 1: element type ", Name(inputs[1].dtype), " is not that of input 0, ",
                     Name(inputs[0].dtype));
    }
    outputs[0].dtype = inputs[0].dtype;
    BW_ASSIGN_OR_RETURN(outputs[0].shape, ProductShape(options, inputs[0].shape, inputs[1].shape));
    return absl::OkStatus();
  }

  template <typename T>
  static void Multiply(const ProductPlan& plan, int num_threads, const Tensor& left,
                       const Tensor& right, Tensor& output) {
    const int64_t items = static_cast<int64_t>(plan.pairs.size()) * plan.rows;
    const int64_t b_row = plan.b_transposed ? 1 : plan.columns;
    const int64_t b_column = plan.b_transposed ? plan.depth : 1;
    T* const out = output.mutable_data<T>();
    ParallelFor(num_threads, items, items * plan.depth * plan.columns, [&](int64_t item) {
      const auto [matrix_a, matrix_b] = plan.pairs[static_cast<size_t>(item / plan.rows)];
      const int64_t row = item % plan.rows;
      const T* a = left.data<T>() + matrix_a * plan.rows * plan.depth +
                   (plan.a_transposed ? row : row * plan.depth);
      const T* b = right.data<T>() + matrix_b * plan.depth * plan.columns;
      const int64_t a_stride = plan.a_transposed ? plan.rows : 1;
      MultiplyRowOf(a, a_stride, b, b_row, b_column, plan.depth,
                    absl::Span<T>(out + item * plan.columns, static_cast<size_t>(plan.columns)));
    });
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const ProductPlan plan = PlanProduct(options, inputs[0]->shape(), inputs[1]->shape());
    VisitDType(outputs[0].dtype(), [&](auto type) {
      using T = decltype(type);
      if constexpr (std::is_same_v<T, float>) {
        MultiplyF32(plan, context.num_threads, inputs[0]->data<T>(), inputs[1]->data<T>(),
                    outputs[0].mutable_data<T>());
      } else if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
        Multiply<T>(plan, context.num_threads, *inputs[0], *inputs[1], outputs[0]);
      }
    });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return ProductRows(Parse(node).value_or(Options()), rows, inputs);
  }
};

// All rows of the first operand times a weight that was packed at load; of a BiasedProduct, with
// its bias and ReLU.
class PackedKernel final : public Kernel {
 public:
  // bias: [columns], or empty.
  PackedKernel(ProductOptions options, const Tensor& weight, Precision precision,
               std::vector<float> bias = {}, bool relu = false)
      : options_(options),
        bias_(std::move(bias)),
        relu_(relu),
        weight_{weight.dtype(), PartialShape(weight.shape())},
        packed_(SharePacked({weight.data<float>(), weight.dim(0), weight.dim(1), weight.dim(1)},
                            options.transpose_b, precision, weight.lifetime())) {}

  bool NeedsInput(size_t index) const override { return index == 0; }

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    RuntimeResults results(outputs.size());
    RuntimeInfos infos = DescribeInputs(inputs.subspan(0, 1));
    infos.push_back(weight_);
    BW_RETURN_IF_ERROR(MatMulOp::Shapes(options_, infos, absl::MakeSpan(results)));
    BW_RETURN_IF_ERROR(PrepareOutputs(results, outputs));
    const int64_t depth = packed_->depth();
    const int64_t columns = packed_->columns();
    const int64_t rows = NumElements(inputs[0]->shape()) / std::max<int64_t>(depth, 1);
    if (outputs[0].num_elements() == 0) {
      return absl::OkStatus();
    }
    const PhaseScope phase(context.profile, Phase::kProducts);
    const ConstMatrix<float> a{inputs[0]->data<float>(), rows, depth, depth};
    const Matrix<float> out{outputs[0].mutable_data<float>(), rows, columns, columns};
    // In 8 bits the sum of the integers is exact: starting from the bias gives the bits of adding
    // it last. Other sums would be rounded in another order.
    const bool starts_from_bias = packed_->precision() == Precision::kInt8;
    PackedMatMul::Start start;
    if (starts_from_bias) {
      start.bias = bias_;
    }
    const float* const added = starts_from_bias || bias_.empty() ? nullptr : bias_.data();
    if (added == nullptr && !relu_) {
      packed_->Run(context.num_threads, a, start, out);
    } else {
      RunByPanels(*packed_, context.num_threads, a, start, out,
                  [added, relu = relu_](int64_t first_column, Matrix<float> panel) {
                    Finish(added == nullptr ? nullptr : added + first_column, relu, panel);
                  });
    }
    return absl::OkStatus();
  }

 private:
  static void Finish(const float* bias, bool relu, Matrix<float> panel) {
    Vectorized([=]() BW_ALWAYS_INLINE {
      for (int64_t row = 0; row < panel.rows; ++row) {
        float* const out = panel.row(row);
        if (bias != nullptr) {
          for (int64_t n = 0; n < panel.columns; ++n) {
            out[n] = out[n] + bias[n];
          }
        }
        if (relu) {
          for (int64_t n = 0; n < panel.columns; ++n) {
            out[n] = out[n] < 0.0f ? 0.0f : out[n];
          }
        }
      }
    });
  }

  const ProductOptions options_;
  const std::vector<float> bias_;
  const bool relu_;
  const InputInfo weight_;  // type and shape
  const std::shared_ptr<const PackedMatMul> packed_;
};

template <Precision kWeights>
absl::StatusOr<std::unique_ptr<Kernel>> MakeMatMul(const KernelRequest& request) {
  BW_ASSIGN_OR_RETURN(const ProductOptions options, MatMulOp::Parse(request.node));
  const Tensor* weight = request.inputs.size() == 2 ? request.inputs[1].value : nullptr;
  const PartialShape& a = request.inputs[0].shape;
  const bool a_is_transposed = options.transpose_a && (!a.has_rank() || a.rank() > 1);
  if (weight != nullptr && weight->dtype() == DType::kF32 && weight->rank() == 2 &&
      weight->num_elements() > 0 && !a_is_transposed) {
    return std::make_unique<PackedKernel>(options, *weight, kWeights);
  }
  return std::make_unique<CodeKernel<MatMulOp>>(options);
}

struct BiasedProductOp {
  static absl::Status Infer(const Node& node, absl::Span<const InputInfo> inputs,
                            std::vector<ValueInfo>& outputs) {
    BW_ASSIGN_OR_RETURN(const ProductOptions options, MatMulOp::Parse(node));
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 3, 3, absl::MakeSpan(outputs)));
    return MatMulOp::Shapes(options, inputs.subspan(0, 2), absl::MakeSpan(outputs));
  }
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return MatMulOp::Rows(node, rows.subspan(0, 2), inputs.subspan(0, 2));
  }
};

template <Precision kWeights>
absl::StatusOr<std::unique_ptr<Kernel>> MakeBiasedProduct(const KernelRequest& request) {
  BW_ASSIGN_OR_RETURN(const ProductOptions options, MatMulOp::Parse(request.node));
  BW_ASSIGN_OR_RETURN(const bool relu, request.node.attributes.Bool("relu", false));
  const Tensor* const weight = request.inputs[1].value;
  const Tensor* const bias = request.inputs[2].value;
  if (options.transpose_a || weight == nullptr || weight->dtype() != DType::kF32 ||
      weight->rank() != 2 || weight->num_elements() == 0 || bias == nullptr ||
      bias->dtype() != DType::kF32 ||
      bias->num_elements() != weight->dim(options.transpose_b ? 0 : 1)) {
    return Invalid("weight and bias of a ", kBiasedProductName, " must be known");
  }
  const float* const values = bias->data<float>();
  return std::make_unique<PackedKernel>(
      options, *weight, kWeights, std::vector<float>(values, values + bias->num_elements()), relu);
}

template <Precision kWeights>
constexpr OperatorCode kBiasedCode = {&BiasedProductOp::Infer, &MakeBiasedProduct<kWeights>,
                                      &BiasedProductOp::Rows};

template <Precision kWeights>
constexpr OperatorCode kCode = {&InferAs<MatMulOp>, &Widened<&MakeMatMul<kWeights>>,
                                &MatMulOp::Rows};

}  // namespace

constinit const OperatorCode kMatMul = kCode<Precision::kF32>;

const OperatorCode& MatMulIn(Precision weights) {
  static constexpr OperatorCode kCodes[] = {kCode<Precision::kF32>, kCode<Precision::kBf16>,
                                            kCode<Precision::kBf16Dot>, kCode<Precision::kBf16Amx>,
                                            kCode<Precision::kInt8>};
  return kCodes[static_cast<size_t>(weights)];
}

const OperatorCode& BiasedProductIn(Precision weights) {
  static constexpr OperatorCode kCodes[] = {
      kBiasedCode<Precision::kF32>, kBiasedCode<Precision::kBf16>, kBiasedCode<Precision::kBf16Dot>,
      kBiasedCode<Precision::kBf16Amx>, kBiasedCode<Precision::kInt8>};
  return kCodes[static_cast<size_t>(weights)];
}

}  // namespace beamwright::ops
