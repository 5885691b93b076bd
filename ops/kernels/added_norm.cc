// Layer normalization of x + addend, with scale and shift, over the last axis (header: the
// formula). Normalize computes one row in three passes over `out`, which is in the cache by then:
// sum and mean, differences and variance, result. Threads take rows.
//
// An addend of another shape than x is added first, by ApplyBinary. The steps round as the four
// operators do that AddedNorm replaces, so that the bits are the same.
#include "ops/kernels/added_norm.h"

#include <cmath>

#include "ops/base/vector_isa.h"
#include "ops/kernels/elementwise_binary.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/math.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

enum Input : size_t { kX, kScale, kShift, kAddend, kNumInputs };

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
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, kAddend, kNumInputs, outputs));
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
