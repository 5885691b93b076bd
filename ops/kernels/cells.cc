#include "ops/kernels/cells.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/base/step_profile.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/activations.h"
#include "ops/kernels/cell_options.h"
#include "ops/kernels/cell_weights.h"
#include "ops/kernels/fused_cells.h"
#include "ops/kernels/indices.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/widen.h"

namespace beamwright::ops {
namespace {

template <Cell kCell>
absl::Status InferCell(const Node& node, absl::Span<const InputInfo> inputs,
                       std::vector<ValueInfo>& outputs) {
  BW_ASSIGN_OR_RETURN(const CellOptions options, ParseCell(node, kCell));
  return CellShapes(options, inputs, absl::MakeSpan(outputs));
}

// Buffers of a thread, kept from step to step.
Matrix<float> Buffer(size_t slot, int64_t rows, int64_t columns) {
  static thread_local std::vector<float> buffers[2];
  std::vector<float>& buffer = buffers[slot];
  buffer.resize(std::max(buffer.size(), static_cast<size_t>(rows * columns)));
  return {buffer.data(), rows, columns, columns};
}

ConstMatrix<float> AsMatrix(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.dim(0), tensor.dim(1), tensor.dim(1)};
}

class CellKernel final : public Kernel, public RowSourceKernel {
 public:
  CellKernel(CellOptions options, absl::Span<const InputInfo> inputs, Precision weights)
      : options_(std::move(options)),
        has_peepholes_(options_.p() >= 0 && Present(inputs, static_cast<size_t>(options_.p()))) {
    const Tensor* w = inputs[static_cast<size_t>(options_.w())].value;
    const Tensor* r = inputs[static_cast<size_t>(options_.r())].value;
    if (w != nullptr) {
      input_ = CellWeights(w, InputPart(*w), weights);
    }
    recurrent_ = CellWeights(r, RecurrentPart(r, 0, RecurrentRows()), weights);
    if (CandidateApart()) {
      candidate_ = CellWeights(r, RecurrentPart(r, RecurrentRows(), options_.hidden), weights);
    }
    for (const int index : {options_.w(), options_.r()}) {
      const InputInfo& weight = inputs[static_cast<size_t>(index)];
      if (!NeedsInput(static_cast<size_t>(index))) {
        packed_.emplace_back(index, InputInfo{weight.dtype, PartialShape(weight.value->shape())});
      }
    }
  }

  bool NeedsInput(size_t index) const override {
    const bool is_w = index == static_cast<size_t>(options_.w());
    const bool is_r = index == static_cast<size_t>(options_.r());
    const bool r_packed = recurrent_.is_packed() && (!CandidateApart() || candidate_.is_packed());
    return !(is_w || is_r) || (is_w && !input_.is_packed()) || (is_r && !r_packed);
  }

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    BW_RETURN_IF_ERROR(Prepare(inputs, {}, outputs));
    const PhaseScope phase(Phase::kGates);
    if (IsFused()) {
      RunFused(context, inputs, {}, outputs);
      return absl::OkStatus();
    }
    switch (options_.cell) {
      case Cell::kLstm:
        return RunLstm(context, inputs, outputs);
      case Cell::kGru:
        return options_.linear_before_reset ? RunGruLinear(context, inputs, outputs)
                                            : RunGru(context, inputs, outputs);
      default:
        return RunRnn(context, inputs, outputs);
    }
  }

  // GRU's sums of the state's product stand alone: linear_before_reset needs them apart.
  int state_input() const override {
    return options_.cell == Cell::kGru && IsFused() ? kStateInput : -1;
  }
  int table_input() const override { return options_.input_is_product && IsFused() ? 0 : -1; }
  absl::Status RunRows(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                       const RowSources& sources, absl::Span<Tensor> outputs) const override {
    BW_RETURN_IF_ERROR(Prepare(inputs, sources, outputs));
    const PhaseScope phase(Phase::kGates);
    RunFused(context, inputs, sources, outputs);
    return absl::OkStatus();
  }

 private:
  static constexpr int kStateInput = 1;  // H

  // Checks what the run is given, and makes room for its outputs.
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
    BW_RETURN_IF_ERROR(CellShapes(options_, infos, absl::MakeSpan(results)));
    return PrepareOutputs(results, outputs);
  }

  // GRU's default candidate multiplies r . H, not H: its rows of R are a product of their own.
  bool CandidateApart() const {
    return options_.cell == Cell::kGru && !options_.linear_before_reset;
  }
  int64_t RecurrentRows() const {
    return (options_.gates - (CandidateApart() ? 1 : 0)) * options_.hidden;
  }
  // Parts of a weight that the run does not get, because it is packed, are not looked at.
  CellWeights::Part InputPart(const Tensor& w) const {
    if (!w.has_value()) {
      return {};
    }
    return {0, options_.gates * options_.hidden, 0,
            w.dim(1) - (options_.joined ? options_.hidden : 0)};
  }
  CellWeights::Part RecurrentPart(const Tensor* r, int64_t first_row, int64_t rows) const {
    const bool joined = options_.joined && r != nullptr && r->has_value();
    const int64_t first = joined ? r->dim(1) - options_.hidden : 0;
    return {first_row, rows, first, options_.hidden};
  }

  static const Tensor* Optional(absl::Span<const Tensor* const> inputs, int index) {
    const size_t i = static_cast<size_t>(index);
    return index >= 0 && i < inputs.size() && inputs[i] != nullptr && inputs[i]->has_value()
               ? inputs[i]
               : nullptr;
  }
  // `count` entries of B from `first`; empty where there is no B.
  absl::Span<const float> Bias(absl::Span<const Tensor* const> inputs, int64_t first,
                               int64_t count) const {
    const Tensor* bias = Optional(inputs, options_.b());
    return bias == nullptr ? absl::Span<const float>()
                           : bias->span<float>().subspan(static_cast<size_t>(first),
                                                         static_cast<size_t>(count));
  }
  const Tensor& R(absl::Span<const Tensor* const> inputs) const {
    return *inputs[static_cast<size_t>(options_.r())];
  }
  int64_t Work(int64_t rows) const { return 16 * rows * options_.gates * options_.hidden; }

  // gates = X W^T + B (the first `gates` parts of it).
  void InputProduct(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                    Matrix<float> gates) const {
    const absl::Span<const float> bias = Bias(inputs, 0, gates.columns);
    if (options_.input_is_product) {
      AddBias(AsMatrix(*inputs[0]), bias, gates);
      return;
    }
    const Tensor& w = *inputs[static_cast<size_t>(options_.w())];
    input_.Run(context, w, InputPart(w), AsMatrix(*inputs[0]), {}, gates);
    AddBias({gates.data, gates.rows, gates.columns, gates.stride}, bias, gates);
  }

  // Behind the product, not before: a product that was computed elsewhere has no bias yet, and the
  // bits are to be the same. `product` may be `out`.
  static void AddBias(ConstMatrix<float> product, absl::Span<const float> bias, Matrix<float> out) {
    for (int64_t row = 0; row < product.rows; ++row) {
      const float* const from = product.row(row);
      float* const to = out.row(row);
      if (from != to) {
        std::copy_n(from, out.columns, to);
      }
      const float* const b = bias.data();
      const size_t count = bias.size();
      Vectorized([=]() BW_ALWAYS_INLINE {
        for (size_t i = 0; i < count; ++i) {
          to[i] = to[i] + b[i];
        }
      });
    }
  }

  // Whether ops/kernels/fused_cells.h runs it.
  bool IsFused() const {
    const bool one_product = options_.cell == Cell::kLstm || options_.linear_before_reset;
    return options_.IsUsual() && options_.cell != Cell::kRnn && one_product && !has_peepholes_ &&
           recurrent_.is_packed() && (options_.input_is_product || input_.is_packed());
  }

  void RunFused(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                const RowSources& sources, absl::Span<Tensor> outputs) const {
    const Tensor* const bias = Optional(inputs, options_.b());
    FusedCell cell{input_.packed(), recurrent_.packed(), outputs[0].dim(0), AsMatrix(*inputs[0])};
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
                           options_.hidden, options_.hidden};
    };
    if (options_.cell == Cell::kLstm) {
      RunFusedLstm(context.num_threads, cell, AsMatrix(*inputs[2]), output(1), output(0));
    } else {
      RunFusedGru(context.num_threads, cell, sources.families, output(0));
    }
  }

  absl::Status RunLstm(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                       absl::Span<Tensor> outputs) const {
    const int64_t hidden = options_.hidden;
    const size_t size = static_cast<size_t>(hidden);
    const Matrix<float> gates = Buffer(0, inputs[0]->dim(0), 4 * hidden);
    InputProduct(context, inputs, gates);
    recurrent_.Run(context, R(inputs), RecurrentPart(&R(inputs), 0, 4 * hidden),
                   AsMatrix(*inputs[1]), {{}, true}, gates);
    const Tensor* peepholes = Optional(inputs, options_.p());
    const float* p = peepholes == nullptr ? nullptr : peepholes->data<float>();
    const float* old_cell = inputs[2]->data<float>();
    float* const new_hidden = outputs[0].mutable_data<float>();
    float* const new_cell = outputs[1].mutable_data<float>();
    ParallelFor(context.num_threads, gates.rows, Work(gates.rows), [&](int64_t row) {
      float* f = gates.row(row);
      float* i = f + hidden;
      float* g = i + hidden;
      float* o = g + hidden;
      const float* c = old_cell + row * hidden;
      float* c_out = new_cell + row * hidden;
      float* h_out = new_hidden + row * hidden;
      for (int64_t k = 0; p != nullptr && k < hidden; ++k) {
        f[k] += p[k] * c[k];
        i[k] += p[hidden + k] * c[k];
      }
      Activate(options_.activations[0], options_.clip, {f, 2 * size});
      for (int64_t k = 0; options_.input_forget && k < hidden; ++k) {
        f[k] = 1.0f - i[k];
      }
      Activate(options_.activations[1], options_.clip, {g, size});
      for (int64_t k = 0; k < hidden; ++k) {
        c_out[k] = f[k] * c[k] + i[k] * g[k];
      }
      for (int64_t k = 0; p != nullptr && k < hidden; ++k) {
        o[k] += p[2 * hidden + k] * c_out[k];
      }
      Activate(options_.activations[0], options_.clip, {o, size});
      std::copy(c_out, c_out + hidden, h_out);
      Activate(options_.activations[2], 0, {h_out, size});
      for (int64_t k = 0; k < hidden; ++k) {
        h_out[k] = o[k] * h_out[k];
      }
    });
    return absl::OkStatus();
  }

  // H' = (1 - z) . g + z . h
  static void BlendGru(const float* z, const float* g, const float* h, int64_t hidden, float* out) {
    for (int64_t k = 0; k < hidden; ++k) {
      out[k] = (1.0f - z[k]) * g[k] + z[k] * h[k];
    }
  }

  absl::Status RunGru(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                      absl::Span<Tensor> outputs) const {
    const int64_t hidden = options_.hidden;
    const Matrix<float> gates = Buffer(0, inputs[0]->dim(0), 3 * hidden);
    const Matrix<float> reset = Buffer(1, gates.rows, hidden);  // r . h
    InputProduct(context, inputs, gates);
    const Matrix<float> zr{gates.data, gates.rows, 2 * hidden, gates.stride};
    recurrent_.Run(context, R(inputs), RecurrentPart(&R(inputs), 0, 2 * hidden),
                   AsMatrix(*inputs[1]), {{}, true}, zr);
    const float* h = inputs[1]->data<float>();
    float* const out = outputs[0].mutable_data<float>();
    ParallelFor(context.num_threads, gates.rows, Work(gates.rows), [&](int64_t row) {
      Activate(options_.activations[0], options_.clip, zr.row_span(row));
      const float* r = gates.row(row) + hidden;
      for (int64_t k = 0; k < hidden; ++k) {
        reset.row(row)[k] = r[k] * h[row * hidden + k];
      }
    });
    const Matrix<float> candidate{gates.data + 2 * hidden, gates.rows, hidden, gates.stride};
    const ConstMatrix<float> reset_in{reset.data, reset.rows, reset.columns, reset.stride};
    candidate_.Run(context, R(inputs), RecurrentPart(&R(inputs), 2 * hidden, hidden), reset_in,
                   {{}, true}, candidate);
    ParallelFor(context.num_threads, gates.rows, Work(gates.rows), [&](int64_t row) {
      Activate(options_.activations[1], options_.clip, candidate.row_span(row));
      BlendGru(gates.row(row), candidate.row(row), h + row * hidden, hidden, out + row * hidden);
    });
    return absl::OkStatus();
  }

  absl::Status RunGruLinear(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                            absl::Span<Tensor> outputs) const {
    const int64_t hidden = options_.hidden;
    const Matrix<float> gates = Buffer(0, inputs[0]->dim(0), 3 * hidden);
    const Matrix<float> recurrent = Buffer(1, gates.rows, 3 * hidden);
    InputProduct(context, inputs, gates);
    recurrent_.Run(context, R(inputs), RecurrentPart(&R(inputs), 0, 3 * hidden),
                   AsMatrix(*inputs[1]), {}, recurrent);
    const absl::Span<const float> bias = Bias(inputs, 3 * hidden, hidden);
    const float* h = inputs[1]->data<float>();
    float* const out = outputs[0].mutable_data<float>();
    ParallelFor(context.num_threads, gates.rows, Work(gates.rows), [&](int64_t row) {
      float* z = gates.row(row);
      float* r = z + hidden;
      float* g = r + hidden;
      const float* hr = recurrent.row(row);
      for (int64_t k = 0; k < 2 * hidden; ++k) {
        z[k] += hr[k];
      }
      Activate(options_.activations[0], options_.clip, {z, static_cast<size_t>(2 * hidden)});
      for (int64_t k = 0; k < hidden; ++k) {
        const float b = bias.empty() ? 0.0f : bias[static_cast<size_t>(k)];
        g[k] += r[k] * (hr[2 * hidden + k] + b);
      }
      Activate(options_.activations[1], options_.clip, {g, static_cast<size_t>(hidden)});
      BlendGru(z, g, h + row * hidden, hidden, out + row * hidden);
    });
    return absl::OkStatus();
  }

  absl::Status RunRnn(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                      absl::Span<Tensor> outputs) const {
    const int64_t hidden = options_.hidden;
    const Matrix<float> out{outputs[0].mutable_data<float>(), inputs[0]->dim(0), hidden, hidden};
    InputProduct(context, inputs, out);
    recurrent_.Run(context, R(inputs), RecurrentPart(&R(inputs), 0, hidden), AsMatrix(*inputs[1]),
                   {{}, true}, out);
    ParallelFor(context.num_threads, out.rows, Work(out.rows), [&](int64_t row) {
      Activate(options_.activations[0], options_.clip, out.row_span(row));
    });
    return absl::OkStatus();
  }

  const CellOptions options_;
  const bool has_peepholes_;
  CellWeights input_;      // W
  CellWeights recurrent_;  // R, without GRU's candidate rows where they are apart
  CellWeights candidate_;  // GRU's candidate rows of R
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
  static constexpr OperatorCode kCodes[] = {kCode<kCell, Precision::kF32>,
                                            kCode<kCell, Precision::kBf16>,
                                            kCode<kCell, Precision::kInt8>};
  return kCodes[static_cast<size_t>(weights)];
}

}  // namespace

const OperatorCode& LstmCellIn(Precision weights) { return CodeIn<Cell::kLstm>(weights); }
const OperatorCode& GruCellIn(Precision weights) { return CodeIn<Cell::kGru>(weights); }
const OperatorCode& RnnCellIn(Precision weights) { return CodeIn<Cell::kRnn>(weights); }

}  // namespace beamwright::ops
