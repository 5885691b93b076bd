// CellWeights: one of a cell's two products, X * W^T or H * R^T (or some gates' rows of it), packed
// if the weight is known at load and multiplied in fixed-order loops if not.
#ifndef BEAMWRIGHT_OPS_KERNELS_CELL_WEIGHTS_H_
#define BEAMWRIGHT_OPS_KERNELS_CELL_WEIGHTS_H_

#include <memory>

#include "ops/graph/operator.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

class CellWeights {
 public:
  // Rows [first_row, first_row + rows) and columns [first_column, first_column + columns) of a
  // weight [all rows, all columns], which `constant` holds if it is known at load.
  struct Part {
    int64_t first_row = 0;
    int64_t rows = 0;
    int64_t first_column = 0;
    int64_t columns = 0;
  };
  CellWeights() = default;
  CellWeights(const Tensor* constant, const Part& part, Precision precision);

  // Whether the runs need the weight no longer.
  bool is_packed() const { return packed_ != nullptr; }
  // The packed part, transposed; null if the weight is not known at load.
  const PackedMatMul* packed() const { return packed_.get(); }

  // out = start + a * part(weight)^T. `weight` is the run's own tensor, `part` as in the
  // constructor (extents may have been unknown there); neither is looked at if is_packed().
  void Run(const ExecutionContext& context, const Tensor& weight, const Part& part,
           ConstMatrix<float> a, const PackedMatMul::Start& start, Matrix<float> out) const;

 private:
  std::shared_ptr<const PackedMatMul> packed_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_CELL_WEIGHTS_H_
