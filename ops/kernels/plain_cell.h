// A recurrent cell as its definition has it (ops/kernels/cells.h): the products of all rows, then
// the gates of each. For every option, and for weights that are not known at load; usual cells with
// packed weights run in ops/kernels/cells.h. Private to ops/kernels/.
#ifndef BEAMWRIGHT_OPS_KERNELS_PLAIN_CELL_H_
#define BEAMWRIGHT_OPS_KERNELS_PLAIN_CELL_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "ops/graph/operator.h"
#include "ops/kernels/cell_parts.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// CellWeights: one of a cell's two products, X * W^T or H * R^T (or some gates' rows of it), packed
// if the weight is known at load and multiplied in fixed-order loops if not.

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

class PlainCell {
 public:
  // Packs the weights that are known at load. `inputs`: as CellShapes has accepted them.
  PlainCell(CellOptions options, absl::Span<const InputInfo> inputs, Precision weights);

  const CellOptions& options() const { return options_; }
  // W, and R without GRU's candidate rows where they are a separate product.
  const CellWeights& input() const { return input_; }
  const CellWeights& recurrent() const { return recurrent_; }
  // Whether runs read the node's input `index`: a weight that is packed need not be there.
  bool NeedsInput(size_t index) const;

  // Of the node's inputs, which CellShapes has accepted, into its outputs, which have their shapes.
  void Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
           absl::Span<Tensor> outputs) const;

 private:
  bool CandidateApart() const;
  int64_t RecurrentRows() const;
  CellWeights::Part InputPart(const Tensor& w) const;
  CellWeights::Part RecurrentPart(const Tensor* r, int64_t first_row, int64_t rows) const;
  absl::Span<const float> Bias(absl::Span<const Tensor* const> inputs, int64_t first,
                               int64_t count) const;
  const Tensor& R(absl::Span<const Tensor* const> inputs) const {
    return *inputs[static_cast<size_t>(options_.r())];
  }
  int64_t Work(int64_t rows) const { return 16 * rows * options_.gates * options_.hidden; }
  void InputProduct(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                    Matrix<float> gates) const;
  void RunLstm(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
               absl::Span<Tensor> outputs) const;
  void RunGru(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
              absl::Span<Tensor> outputs) const;
  void RunGruLinear(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                    absl::Span<Tensor> outputs) const;
  void RunRnn(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
              absl::Span<Tensor> outputs) const;

  const CellOptions options_;
  CellWeights input_;      // W
  CellWeights recurrent_;  // R, without GRU's candidate rows where they are apart
  CellWeights candidate_;  // GRU's candidate rows of R
};

// An f32 tensor of rank 2.
inline ConstMatrix<float> AsMatrix(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.dim(0), tensor.dim(1), tensor.dim(1)};
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_PLAIN_CELL_H_
