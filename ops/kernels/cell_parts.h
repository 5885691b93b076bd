// Parts of recurrent cells: what their nodes ask for, activation functions by name, and what cells
// do between their products.
#ifndef BEAMWRIGHT_OPS_KERNELS_CELL_PARTS_H_
#define BEAMWRIGHT_OPS_KERNELS_CELL_PARTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/graph/graph.h"
#include "ops/graph/operator.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// The activation functions of recurrent cells, chosen by name at load.

enum class ActivationKind {
  kSigmoid,
  kTanh,
  kRelu,
  kHardSigmoid,      // min(max(alpha x + beta, 0), 1); alpha 0.2, beta 0.5
  kAffine,           // alpha x + beta; alpha 1, beta 0
  kLeakyRelu,        // x < 0 ? alpha x : x; alpha 0.01
  kThresholdedRelu,  // x > alpha ? x : 0; alpha 1
  kScaledTanh,       // alpha tanh(beta x); alpha 1, beta 1
  kElu,              // x < 0 ? alpha (exp(x) - 1) : x; alpha 1
  kSoftsign,         // x / (1 + |x|)
};

struct Activation {
  ActivationKind kind = ActivationKind::kSigmoid;
  float alpha = 0;
  float beta = 0;
};

// Attributes activations (names without case; absent: `defaults`), activations_alpha and
// activations_beta (by position; missing entries take the function's default).
absl::StatusOr<std::vector<Activation>> ParseActivations(const Attributes& attributes,
                                                         std::vector<std::string> defaults);

// values[i] = f(values[i]), clipped to [-clip, clip] before if clip > 0.
void Activate(const Activation& activation, float clip, absl::Span<float> values);

// What recurrent cells do between their products, in one pass over a row for the usual activations
// (sigmoid gates, tanh candidates, no clipping, no peepholes). The same bits as the passes that
// ops/kernels/cells.cc makes for all others.

// What the gates read: sums before activation, parts of `count` elements each, so far apart as the
// strides say, in the order of the operator's weights. The input's part and the bias are added
// first, then the state's part, which is a sum from zero: rows that continue one state share it.
struct CellSums {
  const float* input = nullptr;
  int64_t input_stride = 0;
  const float* recurrent = nullptr;
  int64_t recurrent_stride = 0;
  const float* bias = nullptr;  // or null: none
  int64_t bias_stride = 0;
};

// Parts f, i, c, o. new_cell = s(f) cell + s(i) tanh(c), new_hidden = s(o) tanh(new_cell). Nothing
// overlaps.
void LstmGates(const CellSums& sums, const float* cell, int64_t count, float* new_cell,
               float* new_hidden);

// Parts z, r, h; the bias has a fourth one, which is added to the state's part of h. new_hidden =
// (1 - s(z)) tanh(h) + s(z) old, with z and r the sums of all parts, and h the input's part plus
// s(r) times the state's. Nothing overlaps.
void GruGates(const CellSums& sums, const float* old, int64_t count, float* new_hidden);

// What the nodes LSTMCell, GRUCell and RNNCell ask for, and the shapes that follow. Semantics:
// ops/kernels/cells.h.

enum class Cell { kLstm, kGru, kRnn };

struct CellOptions {
  Cell cell = Cell::kLstm;
  int64_t gates = 4;
  int64_t hidden = 0;
  std::vector<Activation> activations;
  float clip = 0;
  bool linear_before_reset = false;
  bool joined = false;
  bool input_forget = false;
  bool input_is_product = false;  // X is X * W^T already, [rows, gates * hidden], and W is absent
  // LSTM: X is X * W^T + H * R^T already, and W and R are absent.
  bool input_is_gates = false;

  // Input positions; -1: the form has no such input.
  int c() const { return cell == Cell::kLstm ? 2 : -1; }
  int w() const { return cell == Cell::kLstm ? 3 : 2; }
  int r() const { return joined ? w() : w() + 1; }  // joined: W holds both
  int b() const { return r() + 1; }
  int p() const { return cell == Cell::kLstm && !joined ? b() + 1 : -1; }
  // Sigmoid gates, tanh for all else, nothing clipped or tied: what ops/kernels/cells.h runs.
  bool IsUsual() const;
  int64_t bias_size() const { return (gates + (linear_before_reset ? 1 : 0)) * hidden; }
};

// InvalidArgument names the attribute and what is allowed.
absl::StatusOr<CellOptions> ParseCell(const Node& node, Cell cell);

// Checks the inputs, and sets type and shape of the outputs, [rows, hidden] each. InvalidArgument
// names the input.
absl::Status CellShapes(const CellOptions& options, absl::Span<const InputInfo> inputs,
                        absl::Span<ValueInfo> outputs);

// A recurrent cell as its definition has it (ops/kernels/cells.h): the products of all rows, then
// the gates of each. For every option, and for weights that are not known at load; usual cells with
// packed weights run in ops/kernels/cells.h.

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

#endif  // BEAMWRIGHT_OPS_KERNELS_CELL_PARTS_H_
