// The operators LSTMCell, GRUCell and RNNCell. A node becomes a CellKernel, which decides at load
// how it runs:
//
// 1. Fused (IsFused): the usual LSTM, and the GRU with linear_before_reset, with packed weights,
//    the usual activations and no peepholes. Products and gates are computed tile by tile.
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

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/base/step_profile.h"
#include "ops/kernels/cell_parts.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/strip_product.h"
#include "ops/kernels/tiles.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

// LSTM and GRU cells in which the gates are computed right after the products, while the sums are
// in the cache. A step is split into tiles: some rows and some units (columns of every gate).
//
// 1. Tiling: as many rows as keep the sums in the second-level cache; more tiles, also of units, if
//    the threads outnumber them or the weights exceed the cache. Units are split at strips of the
//    packed weight.
// 2. Products::Input and Recurrent multiply the tile's rows of X and H by the tile's columns of W
//    and R. The rows of X and H are prepared (quantised, for example) once, for all tiles.
// 3. LstmGates or GruGates (cell_parts.h) compute the gates of a row from both sums.
//
// Families. The rows of a beam often continue the same state. H then has a row for each state, and
// its product is computed once per state, not per row; FamilyByFamily sorts the rows of X so that
// those of a state are neighbours, and a tile of states has a contiguous tile of X. If X is given
// as products (a table with a row per token), only H is multiplied.
//
// Bits do not depend on tiles or families: each sum is computed alone, in the same order.

namespace {

// Rows of a tile: a few blocks of the product, so that weights from the second-level cache cost
// nothing, and few enough that the sums stay there.
constexpr int64_t kTileRows = 70;
// Weights of a tile's units, where several tiles of rows read them: half of such a cache.
constexpr int64_t kTileBytes = int64_t{1} << 20;

struct Tile {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_unit = 0;
  int64_t units = 0;
};

// The tiles of a step. Columns of a packed weight can be had from multiples of a strip on alone, so
// that units are split where every gate begins at one.
class Tiling {
 public:
  // rows: of the states; `widest`: those of the inputs, if they are more and multiplied in tiles.
  Tiling(int threads, int64_t rows, int64_t widest, int64_t hidden, int64_t weight_bytes)
      : rows_(rows), hidden_(hidden) {
    const auto several = static_cast<int64_t>(threads);
    row_tiles_ = std::min(CeilDiv(widest, kTileRows), rows);
    if (row_tiles_ >= several) {
      row_tiles_ = std::min(CeilDiv(row_tiles_, several) * several, rows);
    }
    const int64_t strips = hidden % kStripColumns == 0 ? hidden / kStripColumns : 1;
    int64_t unit_tiles = row_tiles_ > 1 ? CeilDiv(weight_bytes, kTileBytes) : 1;
    unit_tiles = std::max(unit_tiles, row_tiles_ < several ? several : 1);
    units_ = strips == 1 ? hidden : CeilDiv(strips, std::min(unit_tiles, strips)) * kStripColumns;
    tile_rows_ = CeilDiv(rows, std::max<int64_t>(row_tiles_, 1));
    unit_tiles_ = CeilDiv(hidden, units_);
  }

  int64_t size() const { return row_tiles_ * unit_tiles_; }
  int64_t tile_rows() const { return tile_rows_; }
  int64_t tile_units() const { return units_; }

  // Rows change faster: the weights of some units stay in a thread's cache while rows pass.
  Tile operator[](int64_t index) const {
    const int64_t row = std::min(index % row_tiles_ * tile_rows_, rows_);
    const int64_t unit = index / row_tiles_ * units_;
    return {row, std::min(tile_rows_, rows_ - row), unit, std::min(units_, hidden_ - unit)};
  }

 private:
  const int64_t rows_;
  const int64_t hidden_;
  int64_t row_tiles_ = 0;
  int64_t tile_rows_ = 0;
  int64_t unit_tiles_ = 0;
  int64_t units_ = 0;
};

// Sums of a tile's rows, gate by gate.
template <int kSlot>
Matrix<float> Sums(const Tile& tile, int64_t gates) {
  return ThreadMatrix<FusedCell, kSlot>(tile.rows, gates * tile.units);
}

// x with the rows of a family one behind the other.
ConstMatrix<float> FamilyByFamily(ConstMatrix<float> x, const RowFamilies& families) {
  if (families.in_order()) {
    return x;
  }
  const Matrix<float> sorted = ThreadMatrix<FusedCell, 2>(x.rows, x.columns);
  for (int64_t i = 0; i < x.rows; ++i) {
    std::copy_n(x.row(families.rows()[static_cast<size_t>(i)]), x.columns, sorted.row(i));
  }
  return {sorted.data, sorted.rows, sorted.columns, sorted.stride};
}

// The products of a step, tile by tile.
class Products {
 public:
  Products(const ExecutionContext& context, const FusedCell& cell, int64_t gates)
      : context_(context), cell_(cell), gates_(gates), hidden_(cell.h.columns) {
    static thread_local PackedMatMul::Activations kept[2];
    x_ = &kept[0];  // the calling thread's, in all of them
    h_ = &kept[1];
    const PhaseScope phase(context.profile, Phase::kProducts);
    if (cell.input != nullptr) {
      cell.input->Prepare(context.num_threads, cell.x, *x_);
    }
    cell.recurrent->Prepare(context.num_threads, cell.h, *h_);
  }

  int64_t work() const {
    constexpr int64_t kWorkOfAGate = 16;
    return (cell_.input == nullptr ? 0 : cell_.input->Work(cell_.rows)) +
           cell_.recurrent->Work(cell_.h.rows) + gates_ * hidden_ * cell_.rows * kWorkOfAGate;
  }
  int64_t weight_bytes() const {
    return static_cast<int64_t>(cell_.recurrent->num_bytes() +
                                (cell_.input == nullptr ? 0 : cell_.input->num_bytes()));
  }

  void Input(const Tile& tile, Matrix<float> sums) const {
    Multiply(*cell_.input, *x_, tile, sums);
  }
  void Recurrent(const Tile& tile, Matrix<float> sums) const {
    Multiply(*cell_.recurrent, *h_, tile, sums);
  }

 private:
  void Multiply(const PackedMatMul& weight, const PackedMatMul::Activations& from, const Tile& tile,
                Matrix<float> sums) const {
    const PhaseScope phase(context_.profile, Phase::kProducts);
    if (tile.units == hidden_) {
      return weight.RunPanel(from, tile.first_row, 0, {}, sums);
    }
    for (int64_t gate = 0; gate < gates_; ++gate) {
      weight.RunPanel(from, tile.first_row, gate * hidden_ + tile.first_unit, {},
                      {sums.data + gate * tile.units, sums.rows, tile.units, sums.stride});
    }
  }

  const ExecutionContext& context_;
  const FusedCell& cell_;
  const int64_t gates_;
  const int64_t hidden_;
  PackedMatMul::Activations* x_;
  PackedMatMul::Activations* h_;
};

template <typename Body>
void ForTiles(int num_threads, const FusedCell& cell, const Products& products, Body body) {
  const int threads = SharingFor(num_threads, products.work());
  const int64_t rows = cell.h.rows;
  const int64_t widest = cell.input == nullptr ? rows : cell.rows;
  const Tiling tiles(threads, rows, widest, cell.h.columns, products.weight_bytes());
  ParallelFor(threads, tiles.size(), [&](int64_t index) { body(tiles[index]); });
}

// gates(sums, state, row, unit, count): `count` units of a row from `unit` on, which continues row
// `state` of h.
template <int64_t kGates, typename Gates>
void RunFused(const ExecutionContext& context, const FusedCell& given, const RowFamilies* families,
              Gates gates) {
  FusedCell cell = given;
  const int64_t hidden = cell.h.columns;
  const bool multiplies = cell.input != nullptr;
  if (multiplies && families != nullptr) {
    cell.x = FamilyByFamily(cell.x, *families);
  }
  const Products products(context, cell, kGates);
  // The first of the rows, family by family, that continue row `at` of h.
  const auto first_child = [families](int64_t at) {
    return families == nullptr ? at : families->first(at);
  };
  ForTiles(context.num_threads, cell, products, [&](const Tile& tile) {
    const int64_t first = first_child(tile.first_row);
    const int64_t last = first_child(tile.first_row + tile.rows);
    const Tile children{first, last - first, tile.first_unit, tile.units};
    const Matrix<float> input = multiplies ? Sums<0>(children, kGates) : Matrix<float>();
    if (multiplies) {
      products.Input(children, input);
    }
    const Matrix<float> recurrent = Sums<1>(tile, kGates);
    products.Recurrent(tile, recurrent);
    CellSums sums;
    sums.input_stride = multiplies ? tile.units : hidden;
    sums.recurrent_stride = tile.units;
    sums.bias = cell.bias == nullptr ? nullptr : cell.bias + tile.first_unit;
    sums.bias_stride = hidden;
    for (int64_t at = tile.first_row; at < tile.first_row + tile.rows; ++at) {
      sums.recurrent = recurrent.row(at - tile.first_row);
      for (int64_t child = first_child(at); child < first_child(at + 1); ++child) {
        const int64_t row =
            families == nullptr ? child : families->rows()[static_cast<size_t>(child)];
        sums.input = multiplies ? input.row(child - first) : cell.ProductOf(row) + tile.first_unit;
        gates(sums, at, row, tile.first_unit, tile.units);
      }
    }
  });
}

}  // namespace

void RunFusedLstm(const ExecutionContext& context, const FusedCell& cell,
                  const RowFamilies* families, ConstMatrix<float> c, Matrix<float> new_c,
                  Matrix<float> new_h) {
  RunFused<4>(context, cell, families,
              [&](const CellSums& sums, int64_t, int64_t row, int64_t unit, int64_t count) {
                LstmGates(sums, c.row(row) + unit, count, new_c.row(row) + unit,
                          new_h.row(row) + unit);
              });
}

void RunFusedGru(const ExecutionContext& context, const FusedCell& cell,
                 const RowFamilies* families, Matrix<float> new_h) {
  RunFused<3>(context, cell, families,
              [&](const CellSums& sums, int64_t state, int64_t row, int64_t unit, int64_t count) {
                GruGates(sums, cell.h.row(state) + unit, count, new_h.row(row) + unit);
              });
}

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
