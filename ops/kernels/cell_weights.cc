#include "ops/kernels/cell_weights.h"

#include "ops/base/step_profile.h"
#include "ops/kernels/matmul.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/shared_weights.h"
#include "ops/kernels/thread_matrix.h"

namespace beamwright::ops {
namespace {

const float* Begin(const Tensor& weight, const CellWeights::Part& part) {
  return weight.data<float>() + part.first_row * weight.dim(1) + part.first_column;
}

}  // namespace

CellWeights::CellWeights(const Tensor* constant, const Part& part, Precision precision) {
  if (constant != nullptr && part.rows > 0 && part.columns > 0) {
    packed_ = SharePacked({Begin(*constant, part), part.rows, part.columns, constant->dim(1)},
                          /*transposed=*/true, precision, constant->lifetime());
  }
}

void CellWeights::Run(const ExecutionContext& context, const Tensor& weight, const Part& part,
                      ConstMatrix<float> a, const PackedMatMul::Start& start,
                      Matrix<float> out) const {
  if (packed_ != nullptr) {
    const PhaseScope phase(Phase::kProducts);
    return packed_->Run(context.num_threads, a, start, out);
  }
  const StridedMatrix transposed{Begin(weight, part), 1, weight.dim(1)};
  ParallelFor(context.num_threads, a.rows, a.rows * part.rows * part.columns, [&](int64_t row) {
    const absl::Span<float> product = ThreadMatrix<CellWeights, 0>(1, part.rows).row_span(0);
    MultiplyRow(a.row(row), 1, transposed, true, part.columns, product);
    float* result = out.row(row);
    for (int64_t n = 0; n < part.rows; ++n) {
      const float value =
          start.bias.empty() ? product[static_cast<size_t>(n)]
                             : product[static_cast<size_t>(n)] + start.bias[static_cast<size_t>(n)];
      result[n] = start.from_output ? result[n] + value : value;
    }
  });
}

}  // namespace beamwright::ops
