// Attention over all heads of all requests of a step, block by block of query rows:
//
// 1. Compute lists the rows (QueryRow): for each row of queries the matrices of keys and values
//    that it meets, by the broadcasting rules of the two products that the operator replaces. With
//    lengths, only the first positions of an item count, and further output rows are 0.
// 2. Rows that meet the same matrices are sorted together and cut into blocks of at most
//    kMostFewRows: the hypotheses of a request read its keys and values once for the block.
// 3. AttendRows, for a block: scores = queries * keys, ScaledSoftmax in place, sums = shares *
//    values. The scores of a block stay in the first cache.
// 4. Blocks are shared among threads; the next block's matrices are fetched meanwhile
//    (PrefetchMatrices).
//
// ScaledSoftmax runs over whole vectors: positions behind the length get a copy of the first score
// for the maximum, and 0 for the sum, which leaves the bits of the separate operators.
#include "ops/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "absl/container/inlined_vector.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/elementwise_loops.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/math.h"
#include "ops/kernels/matmul.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {
namespace {

enum Input : size_t { kQueries, kKeys, kValues, kLengths, kNumInputs };

struct AttentionOptions {
  bool transpose_b = false;
  float scale = 1;
};

ProductOptions ScoreOptions(const AttentionOptions& options) {
  return {false, options.transpose_b};
}

// A row of queries and the numbers of its matrices and output rows.
struct QueryRow {
  int64_t query;
  int64_t keys;
  int64_t values;
  int64_t shares;  // row of the shares
  int64_t out;
  int64_t length;  // of the matrices that counts
};

struct Problem {
  const float* queries;
  const float* keys;
  const float* values;
  float* shares;  // null: not asked for
  float* out;
  int64_t depth;
  int64_t length;
  int64_t width;
  bool keys_transposed;
  float scale;
};

// The softmax of scores times `scale`, with the bits of the nodes Multiply and SoftMax
// (SoftmaxSlice). The row has whole vectors, up to `padded`.
BW_ALWAYS_INLINE inline void ScaledSoftmax(float* row, int64_t length, int64_t padded,
                                           float scale) {
  for (int64_t n = length; n < padded; ++n) {
    row[n] = row[0];
  }
  // 1. Scaled scores and their maximum, lane by lane.
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, -std::numeric_limits<float>::infinity());
  for (int64_t n = 0; n < padded; n += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float score = row[n + lane] * scale;
      row[n + lane] = score;
      lanes[lane] = score > lanes[lane] ? score : lanes[lane];
    }
  }
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) {
      lanes[lane] = lanes[lane + width] > lanes[lane] ? lanes[lane + width] : lanes[lane];
    }
  }
  // 2. Exponentials and their sum; what is behind the length adds 0.
  const float largest = lanes[0];
  for (int64_t n = 0; n < padded; ++n) {
    row[n] = Exp(row[n] - largest);
  }
  for (int64_t n = length; n < padded; ++n) {
    row[n] = 0;
  }
  const float sum = LaneSum(padded, [row](int64_t n) BW_ALWAYS_INLINE { return row[n]; });
  for (int64_t n = 0; n < padded; ++n) {
    row[n] = row[n] / sum;
  }
}

// Fetches the keys and values of the next block while this one is computed: those of many requests
// are spread over the third cache.
void PrefetchMatrices(const Problem& problem, const QueryRow& row) {
  constexpr int64_t kLineFloats = 16;
  const auto fetch = [](const float* from, int64_t count) {
    for (int64_t i = 0; i < count; i += kLineFloats) {
      __builtin_prefetch(from + i);
    }
  };
  const int64_t keys = problem.depth * problem.length;
  const int64_t values = problem.length * problem.width;
  fetch(problem.keys + row.keys * keys, keys);
  fetch(problem.values + row.values * values, values);
}

// Up to kMostFewRows rows that meet the same matrices.
void AttendRows(const Problem& problem, absl::Span<const QueryRow> block) {
  // 1. Scores of the rows, in the thread's buffer.
  const int64_t length = block[0].length;
  const int64_t padded = CeilDiv(length, kLanes) * kLanes;
  const Matrix<float> kept = ThreadMatrix<Problem, 0>(kMostFewRows, padded);
  FewRows scores;
  FewRows sums;
  scores.count = sums.count = static_cast<int>(block.size());
  for (size_t i = 0; i < block.size(); ++i) {
    scores.a[i] = problem.queries + block[i].query * problem.depth;
    scores.out[i] = kept.row(static_cast<int64_t>(i));
    sums.a[i] = scores.out[i];
    sums.out[i] = problem.out + block[i].out * problem.width;
  }
  MultiplyRows(scores,
               {problem.keys + block[0].keys * problem.depth * problem.length,
                problem.keys_transposed ? problem.depth : problem.length, problem.keys_transposed},
               problem.depth, length);
  Vectorized([&scores, length, padded, scale = problem.scale]() BW_ALWAYS_INLINE {
    for (int i = 0; i < scores.count; ++i) {
      ScaledSoftmax(scores.out[i], length, padded, scale);
    }
  });
  // 2. Weighted sums of the values, and the shares if they are an output.
  MultiplyRows(
      sums,
      {problem.values + block[0].values * problem.length * problem.width, problem.width, false},
      length, problem.width);
  for (size_t i = 0; problem.shares != nullptr && i < block.size(); ++i) {
    std::copy_n(sums.a[i], length, problem.shares + block[i].shares * length);
  }
}

struct AttentionOp {
  using Options = AttentionOptions;

  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.transpose_b, node.attributes.Bool("transpose_b", false));
    BW_ASSIGN_OR_RETURN(const double scale, node.attributes.Float("scale", 1));
    options.scale = static_cast<float>(scale);
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(
        ExpectCounts(inputs, kLengths, kNumInputs, outputs, outputs.size() == 2 ? 2 : 1));
    static constexpr const char* kNames[] = {"queries", "keys", "values"};
    for (size_t i = 0; i < kLengths; ++i) {
      BW_RETURN_IF_ERROR(ExpectType(inputs[i], kNames[i], {DType::kF32}));
      if (inputs[i].shape.has_rank() && inputs[i].shape.rank() < 2) {
        return Invalid(kNames[i], ": shape ", inputs[i].shape.ToString(), " is no matrix");
      }
    }
    if (inputs.size() == kNumInputs) {
      BW_RETURN_IF_ERROR(ExpectType(inputs[kLengths], "lengths", {DType::kI64}));
      if (outputs.size() == 2 || !inputs[kKeys].shape.has_rank() ||
          inputs[kKeys].shape.rank() < 3) {
        return Invalid("lengths: there are shares, or keys without an axis for each length");
      }
    }
    BW_ASSIGN_OR_RETURN(
        const PartialShape shares,
        ProductShape(ScoreOptions(options), inputs[kQueries].shape, inputs[kKeys].shape));
    BW_ASSIGN_OR_RETURN(outputs[0].shape, ProductShape({}, shares, inputs[kValues].shape));
    outputs[0].dtype = DType::kF32;
    if (outputs.size() == 2) {
      outputs[1].dtype = DType::kF32;
      outputs[1].shape = shares;
    }
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const ProductPlan scores =
        PlanProduct(ScoreOptions(options), inputs[kQueries]->shape(), inputs[kKeys]->shape());
    RuntimeInfos infos = DescribeInputs(inputs);
    BW_ASSIGN_OR_RETURN(
        const PartialShape shares,
        ProductShape(ScoreOptions(options), infos[kQueries].shape, infos[kKeys].shape));
    const ProductPlan sums = PlanProduct({}, shares.dims(), inputs[kValues]->shape());
    if (outputs[0].num_elements() == 0 && (outputs.size() == 1 || outputs[1].num_elements() == 0)) {
      return absl::OkStatus();
    }
    const Problem problem{inputs[kQueries]->data<float>(),
                          inputs[kKeys]->data<float>(),
                          inputs[kValues]->data<float>(),
                          outputs.size() == 2 ? outputs[1].mutable_data<float>() : nullptr,
                          outputs[0].mutable_data<float>(),
                          scores.depth,
                          scores.columns,
                          sums.columns,
                          scores.b_transposed,
                          options.scale};
    const Tensor* const lengths = inputs.size() == kNumInputs ? inputs[kLengths] : nullptr;
    if (lengths != nullptr) {
      BW_RETURN_IF_ERROR(CheckLengths(*lengths, inputs[kKeys]->dim(0), problem.length));
    }
    const int64_t matrices_of_item =  // of keys
        lengths == nullptr
            ? 1
            : inputs[kKeys]->num_elements() /
                  std::max<int64_t>(1, inputs[kKeys]->dim(0) * problem.depth * problem.length);
    // 1. The rows.
    absl::InlinedVector<QueryRow, 32> rows;
    for (size_t pair = 0; pair < sums.pairs.size(); ++pair) {
      const auto [share, values] = sums.pairs[pair];
      const auto [query, keys] = scores.pairs[static_cast<size_t>(share)];
      const int64_t length =
          lengths == nullptr ? problem.length : lengths->data<int64_t>()[keys / matrices_of_item];
      const int64_t first_out = static_cast<int64_t>(pair) * scores.rows;
      const int64_t count = lengths == nullptr ? scores.rows : std::min(scores.rows, length);
      for (int64_t row = 0; row < count; ++row) {
        rows.push_back({query * scores.rows + row, keys, values, share * scores.rows + row,
                        first_out + row, length});
      }
      std::fill_n(problem.out + (first_out + count) * problem.width,
                  (scores.rows - count) * problem.width, 0.0F);
    }
    // 2. Blocks of rows that meet the same matrices: in a step, all hypotheses of a request.
    const auto meets_before = [](const QueryRow& a, const QueryRow& b) {
      return a.keys != b.keys ? a.keys < b.keys : a.values < b.values;
    };
    if (!std::is_sorted(rows.begin(), rows.end(), meets_before)) {
      std::stable_sort(rows.begin(), rows.end(), meets_before);
    }
    absl::InlinedVector<absl::Span<const QueryRow>, 32> blocks;
    for (size_t first = 0; first < rows.size();) {
      size_t end = first + 1;
      while (end < rows.size() && end - first < kMostFewRows &&
             !meets_before(rows[first], rows[end])) {
        ++end;
      }
      blocks.push_back(absl::MakeConstSpan(rows).subspan(first, end - first));
      first = end;
    }
    // 3. The blocks, on all threads.
    const int64_t work =
        static_cast<int64_t>(rows.size()) * problem.length * (problem.depth + problem.width);
    ParallelFor(context.num_threads, static_cast<int64_t>(blocks.size()), work, [&](int64_t i) {
      const auto block = static_cast<size_t>(i);
      if (block + 1 < blocks.size() && meets_before(blocks[block][0], blocks[block + 1][0])) {
        PrefetchMatrices(problem, blocks[block + 1][0]);
      }
      AttendRows(problem, blocks[block]);
    });
    return absl::OkStatus();
  }

  static absl::Status CheckLengths(const Tensor& lengths, int64_t items, int64_t most) {
    bool fits = lengths.num_elements() == items;
    for (int64_t i = 0; fits && i < items; ++i) {
      fits = lengths.data<int64_t>()[i] >= 0 && lengths.data<int64_t>()[i] <= most;
    }
    return fits ? absl::OkStatus()
                : Invalid("lengths: expected ", items, " numbers from 0 to ", most);
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (rows.size() == kNumInputs && !RowsWithoutRows(rows).has_value()) {
      // Each item with its length, on the first axis.
      const bool is_apart = std::all_of(rows.begin(), rows.end(),
                                        [](const RowInfo& one) { return one == RowsAt(0, 1); });
      return is_apart ? RowsAt(0, 1) : kMixedRows;
    }
    const Options options = Parse(node).value_or(Options());
    RowInfo shares = ProductRows(ScoreOptions(options), rows.subspan(0, 2), inputs.subspan(0, 2));
    const absl::StatusOr<PartialShape> shape =
        ProductShape(ScoreOptions(options), inputs[kQueries].shape, inputs[kKeys].shape);
    if (!shape.ok() || !shape->has_rank()) {
      return RowsWithoutRows(rows).value_or(kMixedRows);
    }
    if (IsRows(shares) && shares.axis == shape->rank() - 1) {
      return kMixedRows;  // a softmax over rows
    }
    const InputInfo both[] = {{DType::kF32, *shape}, inputs[kValues]};
    const RowInfo all[] = {shares, rows[kValues]};
    const RowInfo found = ProductRows({}, all, both);
    // Both outputs count rows on one axis.
    return !IsRows(found) || found == shares ? found : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kAttention = CodeOf<AttentionOp>(&AttentionOp::Rows);

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

// Layer normalization of x + addend, with scale and shift, over the last axis (header: the
// formula). Normalize computes one row in three passes over `out`, which is in the cache by then:
// sum and mean, differences and variance, result. Threads take rows.
//
// An addend of another shape than x is added first, by ApplyBinary. The steps round as the four
// operators do that AddedNorm replaces, so that the bits are the same.

namespace {

enum NormInput : size_t { kX, kScale, kShift, kAddend, kNumNormInputs };

// A row as AddedNorm has it. addend: null where `x` is the sum.
struct NormRow {
  const float* x;
  const float* addend;
  const float* scale;
  const float* shift;
  float epsilon;
  int64_t width;
};

BW_ALWAYS_INLINE inline void Normalize(const NormRow& row, float* out) {
  const float* const x = row.x;
  const float* const addend = row.addend;
  const float* const scale = row.scale;
  const float* const shift = row.shift;
  const int64_t width = row.width;
  const auto divisor = static_cast<float>(width);
  float mean;
  if (addend != nullptr) {
    mean = LaneSum(width,
                   [=](int64_t i) BW_ALWAYS_INLINE {
                     out[i] = x[i] + addend[i];
                     return out[i];
                   }) /
           divisor;
  } else {
    mean = LaneSum(width,
                   [=](int64_t i) BW_ALWAYS_INLINE {
                     out[i] = x[i];
                     return x[i];
                   }) /
           divisor;
  }
  const float variance = LaneSum(width,
                                 [=](int64_t i) BW_ALWAYS_INLINE {
                                   out[i] = out[i] - mean;
                                   return out[i] * out[i];
                                 }) /
                         divisor;
  const float deviation = std::sqrt(variance + row.epsilon);
  for (int64_t i = 0; i < width; ++i) {
    out[i] = out[i] / deviation * scale[i] + shift[i];
  }
}

struct AddedNormOp {
  using Options = double;  // epsilon

  static absl::StatusOr<Options> Parse(const Node& node) { return node.attributes.Float("eps", 0); }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, kAddend, kNumNormInputs, outputs));
    static constexpr const char* kNames[] = {"x", "scale", "shift", "addend"};
    for (size_t i = 0; i < inputs.size(); ++i) {
      BW_RETURN_IF_ERROR(ExpectType(inputs[i], kNames[i], {DType::kF32}));
    }
    PartialShape shape = inputs[kX].shape;
    if (Present(inputs, kAddend)) {
      BW_ASSIGN_OR_RETURN(shape, BroadcastPartial(shape, inputs[kAddend].shape));
    }
    if (shape.has_rank() && shape.rank() == 0) {
      return Invalid("x: a scalar has no last axis");
    }
    for (const size_t i : {kScale, kShift}) {
      BW_RETURN_IF_ERROR(ExpectRank(inputs[i], kNames[i], 1));
      if (shape.has_rank() && inputs[i].shape.has_rank()) {
        BW_RETURN_IF_ERROR(MergeExtents(shape.dims().back(), inputs[i].shape.dim(0)).status());
      }
    }
    outputs[0].dtype = DType::kF32;
    outputs[0].shape = std::move(shape);
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& epsilon, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const int64_t count = outputs[0].num_elements();
    if (count == 0) {
      return absl::OkStatus();
    }
    const Tensor* const addend = InputOrNull(inputs, kAddend);
    float* const out = outputs[0].mutable_data<float>();
    const float* x = inputs[kX]->data<float>();
    const float* added = addend == nullptr ? nullptr : addend->data<float>();
    if (addend != nullptr && addend->shape() != inputs[kX]->shape()) {
      BW_RETURN_IF_ERROR(
          (ApplyBinary<float, float>(*inputs[kX], *addend, outputs[0],
                                     [](float a, float b) BW_ALWAYS_INLINE { return a + b; })));
      x = out;
      added = nullptr;
    }
    const int64_t width = outputs[0].shape().back();
    const float* const scale = inputs[kScale]->data<float>();
    const float* const shift = inputs[kShift]->data<float>();
    ParallelFor(context.num_threads, count / width, 4 * count, [&](int64_t row) {
      const int64_t at = row * width;
      const NormRow one{x + at,
                        added == nullptr ? nullptr : added + at,
                        scale,
                        shift,
                        static_cast<float>(epsilon),
                        width};
      Vectorized([&one, to = out + at]() BW_ALWAYS_INLINE { Normalize(one, to); });
    });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    const RowInfo found = ElementwiseRows(node, rows, inputs);
    if (!IsRows(found)) {
      return found;
    }
    int rank = 0;
    for (const InputInfo& input : inputs) {
      rank = std::max(rank, input.shape.rank());
    }
    return found.axis == rank - 1 ? kMixedRows : found;
  }
};

}  // namespace

constinit const OperatorCode kAddedNorm = CodeOf<AddedNormOp>(&AddedNormOp::Rows);

}  // namespace beamwright::ops
