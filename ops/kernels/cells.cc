// The operators LSTMCell, GRUCell and RNNCell. A node becomes a CellKernel, which decides at load
// how it runs:
//
// 1. Fused (IsFused): the usual LSTM, and the GRU with linear_before_reset, with packed weights,
//    the usual activations and no peepholes. Products and gates are computed tile by tile
//    (fused_cells.cc).
// 2. Plain otherwise (plain_cell.cc).
//
// Besides Run, a fused cell has RunRows: rows that continue the same state (the rows of a beam)
// share the product of that state (RowSources::families), and X may be rows of a table of products,
// one per token, instead of products of embeddings (table_rows). Step computes one step on plain
// pointers, for loops that run a cell over a whole sequence.
//
// Prepare checks the shapes of each run as the load did, because states come from requests; inputs
// that have been packed need not be given (packed_ has their shapes).
//
// A cell has an instance of its operator for each precision of weights (CodeIn).
#include "ops/kernels/cells.h"

#include <utility>
#include <vector>

#include "ops/base/step_profile.h"
#include "ops/kernels/cell_parts.h"
#include "ops/kernels/fused_cells.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/plain_cell.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
namespace {

template <Cell kCell>
absl::Status InferCell(const Node& node, absl::Span<const InputInfo> inputs,
                       std::vector<ValueInfo>& outputs) {
  BW_ASSIGN_OR_RETURN(const CellOptions options, ParseCell(node, kCell));
  return CellShapes(options, inputs, absl::MakeSpan(outputs));
}

class CellKernel final : public Kernel, public RowSourceKernel, public CellSteps {
 public:
  CellKernel(CellOptions options, absl::Span<const InputInfo> inputs, Precision weights)
      : has_peepholes_(options.p() >= 0 && Present(inputs, static_cast<size_t>(options.p()))),
        cell_(std::move(options), inputs, weights) {
    for (const int index : {this->options().w(), this->options().r()}) {
      if (this->options().input_is_gates) {
        break;
      }
      const InputInfo& weight = inputs[static_cast<size_t>(index)];
      if (!NeedsInput(static_cast<size_t>(index))) {
        packed_.emplace_back(index, InputInfo{weight.dtype, PartialShape(weight.value->shape())});
      }
    }
  }

  bool NeedsInput(size_t index) const override { return cell_.NeedsInput(index); }

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    BW_RETURN_IF_ERROR(Prepare(inputs, {}, outputs));
    const PhaseScope phase(context.profile, Phase::kGates);
    if (IsFused()) {
      RunFused(context, inputs, {}, outputs);
    } else {
      cell_.Run(context, inputs, outputs);
    }
    return absl::OkStatus();
  }

  // A fused cell computes the sums of the state's product apart, so that rows can share them.
  int state_input() const override { return IsFused() ? kStateInput : -1; }
  int table_input() const override { return options().input_is_product && IsFused() ? 0 : -1; }
  absl::Status RunRows(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                       const RowSources& sources, absl::Span<Tensor> outputs) const override {
    BW_RETURN_IF_ERROR(Prepare(inputs, sources, outputs));
    const PhaseScope phase(context.profile, Phase::kGates);
    RunFused(context, inputs, sources, outputs);
    return absl::OkStatus();
  }

  bool IsFused() const override {
    const CellOptions& is = options();
    const bool one_product = is.cell == Cell::kLstm || is.linear_before_reset;
    return is.IsUsual() && is.cell != Cell::kRnn && one_product && !has_peepholes_ &&
           cell_.recurrent().is_packed() && (is.input_is_product || cell_.input().is_packed());
  }
  int bias_input() const override { return options().b(); }
  void Step(const ExecutionContext& context, ConstMatrix<float> x, const float* bias,
            absl::Span<const float* const> states, absl::Span<float* const> next) const override {
    const PhaseScope phase(context.profile, Phase::kGates);
    const int64_t hidden = options().hidden;
    FusedCell cell{cell_.input().packed(), cell_.recurrent().packed(), x.rows, x};
    cell.h = {states[0], x.rows, hidden, hidden};
    cell.bias = bias;
    const Matrix<float> new_h{next[0], x.rows, hidden, hidden};
    if (options().cell == Cell::kLstm) {
      RunFusedLstm(context, cell, nullptr, {states[1], x.rows, hidden, hidden},
                   {next[1], x.rows, hidden, hidden}, new_h);
    } else {
      RunFusedGru(context, cell, nullptr, new_h);
    }
  }

 private:
  static constexpr int kStateInput = 1;  // H

  const CellOptions& options() const { return cell_.options(); }

  // Checks the shapes of the run's inputs, and makes room for its outputs.
  absl::Status Prepare(absl::Span<const Tensor* const> inputs, const RowSources& sources,
                       absl::Span<Tensor> outputs) const {
    RuntimeResults results(outputs.size());
    RuntimeInfos infos = DescribeInputs(inputs);
    for (const auto& [index, weight] : packed_) {
      infos[static_cast<size_t>(index)] = weight;
    }
    if (const RowFamilies* const families = sources.families; families != nullptr) {
      const Tensor& state = *inputs[kStateInput];
      if (state.rank() != 2 || state.dim(0) != families->num_families()) {
        return Invalid("H: shape ", ToString(state.shape()), " must have a row for each of ",
                       families->num_families(), " families");
      }
      infos[kStateInput].shape = PartialShape({int64_t{families->num_rows()}, state.dim(1)});
    }
    if (const Tensor* const rows = sources.table_rows; rows != nullptr) {
      const Tensor& table = *inputs[0];
      if (table.rank() != 2 || rows->rank() != 1 || !IsInteger(rows->dtype())) {
        return Invalid("X: a table of shape ", ToString(table.shape()), " and ",
                       ToString(rows->shape()), " must have rank 2 and 1");
      }
      BW_RETURN_IF_ERROR(CheckIndices(*rows, "indices", -table.dim(0), table.dim(0)));
      infos[0].shape = PartialShape({rows->dim(0), table.dim(1)});
    }
    BW_RETURN_IF_ERROR(CellShapes(options(), infos, absl::MakeSpan(results)));
    return PrepareOutputs(results, outputs);
  }

  void RunFused(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                const RowSources& sources, absl::Span<Tensor> outputs) const {
    const Tensor* const bias = InputOrNull(inputs, static_cast<size_t>(options().b()));
    FusedCell cell{cell_.input().packed(), cell_.recurrent().packed(), outputs[0].dim(0),
                   AsMatrix(*inputs[0])};
    cell.h = AsMatrix(*inputs[1]);
    cell.bias = bias == nullptr ? nullptr : bias->data<float>();
    if (sources.table_rows != nullptr) {
      static thread_local std::vector<int64_t> rows;  // kept from step to step
      rows.clear();
      for (int64_t i = 0; i < cell.rows; ++i) {
        rows.push_back(IndexAt(*sources.table_rows, i, cell.x.rows));
      }
      cell.x_rows = rows.data();
    }
    const auto output = [&](size_t index) {
      return Matrix<float>{outputs[index].mutable_data<float>(), outputs[index].dim(0),
                           options().hidden, options().hidden};
    };
    if (options().cell == Cell::kLstm) {
      RunFusedLstm(context, cell, sources.families, AsMatrix(*inputs[2]), output(1), output(0));
    } else {
      RunFusedGru(context, cell, sources.families, output(0));
    }
  }

  const bool has_peepholes_;
  const PlainCell cell_;
  std::vector<std::pair<int, InputInfo>> packed_;  // inputs that need not be there: type and shape
};

template <Cell kCell, Precision kWeights>
absl::StatusOr<std::unique_ptr<Kernel>> MakeCell(const KernelRequest& request) {
  BW_ASSIGN_OR_RETURN(CellOptions options, ParseCell(request.node, kCell));
  // Packing reads constants by these extents.
  std::vector<ValueInfo> outputs(request.node.outputs.size());
  BW_RETURN_IF_ERROR(CellShapes(options, request.inputs, absl::MakeSpan(outputs)));
  return std::make_unique<CellKernel>(std::move(options), request.inputs, kWeights);
}

// X, H (and C) have rows on axis 0, everything else is fixed.
template <Cell kCell>
RowInfo CellRows(const Node&, absl::Span<const RowInfo> rows, absl::Span<const InputInfo>) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  const size_t data_inputs = kCell == Cell::kLstm ? 3 : 2;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool fits = i < data_inputs ? IsRows(rows[i]) && rows[i] == rows[0] && rows[i].axis == 0
                                      : IsFixed(rows[i]);
    if (!fits) {
      return kMixedRows;
    }
  }
  return rows[0];
}

template <Cell kCell, Precision kWeights>
constexpr OperatorCode kCode = {&InferCell<kCell>, &Widened<&MakeCell<kCell, kWeights>>,
                                &CellRows<kCell>};

template <Cell kCell>
const OperatorCode& CodeIn(Precision weights) {
  static constexpr OperatorCode kCodes[] = {
      kCode<kCell, Precision::kF32>, kCode<kCell, Precision::kBf16>,
      kCode<kCell, Precision::kBf16Dot>, kCode<kCell, Precision::kBf16Amx>,
      kCode<kCell, Precision::kInt8>};
  return kCodes[static_cast<size_t>(weights)];
}

}  // namespace

const OperatorCode& LstmCellIn(Precision weights) { return CodeIn<Cell::kLstm>(weights); }
const OperatorCode& GruCellIn(Precision weights) { return CodeIn<Cell::kGru>(weights); }
const OperatorCode& RnnCellIn(Precision weights) { return CodeIn<Cell::kRnn>(weights); }

}  // namespace beamwright::ops
