// The weights of a recurrent cell's product: packed at load if they are constant, and shared by all
// kernels that read the same constant. Weights that are known only when the graph runs are
// multiplied as they lie, a few rows of the input at a time.
#include "ops/kernels/cell_weights.h"

#include <algorithm>

#include "ops/base/step_profile.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/row_products.h"
#include "ops/kernels/shared_weights.h"
#include "ops/kernels/tiles.h"

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
    const PhaseScope phase(context.profile, Phase::kProducts);
    return packed_->Run(context.num_threads, a, start, out);
  }
  const StoredMatrix transposed{Begin(weight, part), weight.dim(1), /*transposed=*/true};
  const int threads = SharingFor(context.num_threads, a.rows * part.rows * part.columns);
  const int64_t tile = EvenTile(a.rows, std::min<int64_t>(kMostFewRows, CeilDiv(a.rows, threads)));
  ParallelFor(threads, CeilDiv(a.rows, tile), [&](int64_t i) {
    const Matrix<float> products = ThreadMatrix<CellWeights, 0>(kMostFewRows, part.rows);
    FewRows rows;
    for (int64_t row = i * tile; row < std::min(a.rows, (i + 1) * tile); ++row) {
      rows.a[rows.count] = a.row(row);
      rows.out[rows.count] = products.row(rows.count);
      ++rows.count;
    }
    MultiplyRows(rows, transposed, part.columns, part.rows);
    for (int64_t r = 0; r < rows.count; ++r) {
      const float* const product = products.row(r);
      float* const result = out.row(i * tile + r);
      for (int64_t n = 0; n < part.rows; ++n) {
        const float value =
            start.bias.empty() ? product[n] : product[n] + start.bias[static_cast<size_t>(n)];
        result[n] = start.from_output ? result[n] + value : value;
      }
    }
  });
}

}  // namespace beamwright::ops
