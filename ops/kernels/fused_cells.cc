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
#include "ops/kernels/fused_cells.h"

#include <algorithm>

#include "ops/base/step_profile.h"
#include "ops/kernels/cell_parts.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/strip_product.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {
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

}  // namespace beamwright::ops
