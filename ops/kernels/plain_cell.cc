// Recurrent cells as their definitions have them. X [rows, inputs] is the input of a step, H [rows,
// hidden] and C the states, W and R the weights, B the bias. Run computes the product of X for all
// gates at once (InputProduct), adds the product of H, and then computes the gates row by row, rows
// shared out among threads:
//
//   LSTM (RunLstm)        f, i, g, o = X W^T + B + H R^T; f and i also + p . C, o + p . C'
//                         C' = f . C + i . g          H' = o . tanh(C')
//   GRU (RunGru)          z, r = X W^T + B + H R^T     g = X W^T + B + (r . H) R^T
//                         H' = (1 - z) . g + z . H
//   GRU (RunGruLinear)    the same, but g = X W^T + B + r . (H R^T + b)
//   simple (RunRnn)       H' = f(X W^T + B + H R^T)
//
// The formulas leave out the activations, which options_ gives: usually sigmoid for the gates f, i,
// o, z and r, tanh for g and for C' in H'. In GRU's default form the candidate g multiplies r . H,
// which is known only after r: its rows of R are packed and multiplied apart (CandidateApart).
// linear_before_reset avoids this second product.
//
// Weights that are known when the model is loaded are packed by the constructor (CellWeights); W
// and R may be two parts of one matrix [W | R] (`joined`), and the input may be the product already
// (input_is_product) or the sum of both products (input_is_gates), when a fused node computed it.
//
// The order of additions is fixed, since fused cells (cells.h) must give the same bits: the
// product of X, then the bias, then the product of H.
#include <algorithm>
#include <utility>

#include "ops/base/step_profile.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/cell_parts.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/matmul.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/shared_weights.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {

// The weights of a recurrent cell's product: packed at load if they are constant, and shared by all
// kernels that read the same constant. Weights that are known only when the graph runs are
// multiplied as they lie, a few rows of the input at a time.

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

namespace {

// Adds the bias after the product, not before: a product that was computed elsewhere has no bias
// yet, and both must give the same bits. `product` may be `out`.
void AddBias(ConstMatrix<float> product, absl::Span<const float> bias, Matrix<float> out) {
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

// H' = (1 - z) . g + z . h
void BlendGru(const float* z, const float* g, const float* h, int64_t hidden, float* out) {
  for (int64_t k = 0; k < hidden; ++k) {
    out[k] = (1.0f - z[k]) * g[k] + z[k] * h[k];
  }
}

}  // namespace

PlainCell::PlainCell(CellOptions options, absl::Span<const InputInfo> inputs, Precision weights)
    : options_(std::move(options)) {
  if (options_.input_is_gates) {
    return;
  }
  const Tensor* const w = inputs[static_cast<size_t>(options_.w())].value;
  const Tensor* const r = inputs[static_cast<size_t>(options_.r())].value;
  if (w != nullptr) {
    input_ = CellWeights(w, InputPart(*w), weights);
  }
  recurrent_ = CellWeights(r, RecurrentPart(r, 0, RecurrentRows()), weights);
  if (CandidateApart()) {
    candidate_ = CellWeights(r, RecurrentPart(r, RecurrentRows(), options_.hidden), weights);
  }
}

bool PlainCell::NeedsInput(size_t index) const {
  if (options_.input_is_gates) {
    return true;
  }
  const bool is_w = index == static_cast<size_t>(options_.w());
  const bool is_r = index == static_cast<size_t>(options_.r());
  const bool r_packed = recurrent_.is_packed() && (!CandidateApart() || candidate_.is_packed());
  return !(is_w || is_r) || (is_w && !input_.is_packed()) || (is_r && !r_packed);
}

void PlainCell::Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                    absl::Span<Tensor> outputs) const {
  switch (options_.cell) {
    case Cell::kLstm:
      return RunLstm(context, inputs, outputs);
    case Cell::kGru:
      return options_.linear_before_reset ? RunGruLinear(context, inputs, outputs)
                                          : RunGru(context, inputs, outputs);
    case Cell::kRnn:
      return RunRnn(context, inputs, outputs);
  }
}

// GRU's default candidate multiplies r . H, not H: its rows of R are a separate product.
bool PlainCell::CandidateApart() const {
  return options_.cell == Cell::kGru && !options_.linear_before_reset;
}

int64_t PlainCell::RecurrentRows() const {
  return (options_.gates - (CandidateApart() ? 1 : 0)) * options_.hidden;
}

// The columns of X within the weight. A weight that is packed is not given to the run; its part is
// not needed then.
CellWeights::Part PlainCell::InputPart(const Tensor& w) const {
  if (!w.has_value()) {
    return {};
  }
  return {0, options_.gates * options_.hidden, 0,
          w.dim(1) - (options_.joined ? options_.hidden : 0)};
}

// Rows `first_row` to first_row + rows - 1 of R, which is the last `hidden` columns of a joined
// weight.
CellWeights::Part PlainCell::RecurrentPart(const Tensor* r, int64_t first_row, int64_t rows) const {
  const bool joined = options_.joined && r != nullptr && r->has_value();
  const int64_t first = joined ? r->dim(1) - options_.hidden : 0;
  return {first_row, rows, first, options_.hidden};
}

// `count` entries of B from `first`; empty where there is no B.
absl::Span<const float> PlainCell::Bias(absl::Span<const Tensor* const> inputs, int64_t first,
                                        int64_t count) const {
  const Tensor* const bias = InputOrNull(inputs, static_cast<size_t>(options_.b()));
  return bias == nullptr
             ? absl::Span<const float>()
             : bias->span<float>().subspan(static_cast<size_t>(first), static_cast<size_t>(count));
}

// gates = X W^T + B (the first `gates` parts of it).
void PlainCell::InputProduct(const ExecutionContext& context,
                             absl::Span<const Tensor* const> inputs, Matrix<float> gates) const {
  const absl::Span<const float> bias = Bias(inputs, 0, gates.columns);
  if (options_.input_is_product || options_.input_is_gates) {
    AddBias(AsMatrix(*inputs[0]), bias, gates);
    return;
  }
  const Tensor& w = *inputs[static_cast<size_t>(options_.w())];
  input_.Run(context, w, InputPart(w), AsMatrix(*inputs[0]), {}, gates);
  AddBias({gates.data, gates.rows, gates.columns, gates.stride}, bias, gates);
}

void PlainCell::RunLstm(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                        absl::Span<Tensor> outputs) const {
  const int64_t hidden = options_.hidden;
  const size_t size = static_cast<size_t>(hidden);
  const Matrix<float> gates = ThreadMatrix<PlainCell, 0>(inputs[0]->dim(0), 4 * hidden);
  InputProduct(context, inputs, gates);
  const bool multiplies = !options_.input_is_gates;
  // A separate sum, as in fused cells, where rows that continue one state share it.
  const Matrix<float> recurrent =
      multiplies ? ThreadMatrix<PlainCell, 1>(gates.rows, 4 * hidden) : Matrix<float>();
  if (multiplies) {
    recurrent_.Run(context, R(inputs), RecurrentPart(&R(inputs), 0, 4 * hidden),
                   AsMatrix(*inputs[1]), {}, recurrent);
  }
  const Tensor* const peepholes =
      options_.p() < 0 ? nullptr : InputOrNull(inputs, static_cast<size_t>(options_.p()));
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
    const float* const hr = multiplies ? recurrent.row(row) : nullptr;
    // Peepholes see the old C for f and i, the new C for o.
    for (int64_t k = 0; multiplies && k < 4 * hidden; ++k) {
      f[k] += hr[k];
    }
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
}

void PlainCell::RunGru(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                       absl::Span<Tensor> outputs) const {
  const int64_t hidden = options_.hidden;
  const Matrix<float> gates = ThreadMatrix<PlainCell, 0>(inputs[0]->dim(0), 3 * hidden);
  const Matrix<float> reset = ThreadMatrix<PlainCell, 1>(gates.rows, hidden);  // r . h
  InputProduct(context, inputs, gates);
  const Matrix<float> zr{gates.data, gates.rows, 2 * hidden, gates.stride};
  recurrent_.Run(context, R(inputs), RecurrentPart(&R(inputs), 0, 2 * hidden), AsMatrix(*inputs[1]),
                 {{}, true}, zr);
  const float* h = inputs[1]->data<float>();
  float* const out = outputs[0].mutable_data<float>();
  ParallelFor(context.num_threads, gates.rows, Work(gates.rows), [&](int64_t row) {
    Activate(options_.activations[0], options_.clip, zr.row_span(row));
    const float* r = gates.row(row) + hidden;
    for (int64_t k = 0; k < hidden; ++k) {
      reset.row(row)[k] = r[k] * h[row * hidden + k];
    }
  });
  // The candidate's product needs r . H of all rows, so it lies between two loops over the rows.
  const Matrix<float> candidate{gates.data + 2 * hidden, gates.rows, hidden, gates.stride};
  const ConstMatrix<float> reset_in{reset.data, reset.rows, reset.columns, reset.stride};
  candidate_.Run(context, R(inputs), RecurrentPart(&R(inputs), 2 * hidden, hidden), reset_in,
                 {{}, true}, candidate);
  ParallelFor(context.num_threads, gates.rows, Work(gates.rows), [&](int64_t row) {
    Activate(options_.activations[1], options_.clip, candidate.row_span(row));
    BlendGru(gates.row(row), candidate.row(row), h + row * hidden, hidden, out + row * hidden);
  });
}

void PlainCell::RunGruLinear(const ExecutionContext& context,
                             absl::Span<const Tensor* const> inputs,
                             absl::Span<Tensor> outputs) const {
  const int64_t hidden = options_.hidden;
  const Matrix<float> gates = ThreadMatrix<PlainCell, 0>(inputs[0]->dim(0), 3 * hidden);
  const Matrix<float> recurrent = ThreadMatrix<PlainCell, 1>(gates.rows, 3 * hidden);
  InputProduct(context, inputs, gates);
  recurrent_.Run(context, R(inputs), RecurrentPart(&R(inputs), 0, 3 * hidden), AsMatrix(*inputs[1]),
                 {}, recurrent);
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
}

void PlainCell::RunRnn(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                       absl::Span<Tensor> outputs) const {
  const int64_t hidden = options_.hidden;
  const Matrix<float> out{outputs[0].mutable_data<float>(), inputs[0]->dim(0), hidden, hidden};
  InputProduct(context, inputs, out);
  recurrent_.Run(context, R(inputs), RecurrentPart(&R(inputs), 0, hidden), AsMatrix(*inputs[1]),
                 {{}, true}, out);
  ParallelFor(context.num_threads, out.rows, Work(out.rows), [&](int64_t row) {
    Activate(options_.activations[0], options_.clip, out.row_span(row));
  });
}

}  // namespace beamwright::ops
