// PackedMatMul: products of activations with one constant weight. A row's result has the same
// bits whatever the number of rows, its position among them, the number of threads and the
// instruction set: that is what lets requests share a batch (docs/numerics.md). No matrix library
// promises that, and for the few rows of a beam one is also slower (docs/performance.md), so the
// kernels are our own (ops/kernels/strip_product.h, ops/kernels/int8_strip_product.h).
//
// Activations, bias and result are f32 in every precision. An element of the result in
//   f32   is one chain of fused multiply-adds in ascending depth;
//   bf16  is the same chain with the weight rounded to bf16;
//   bf16-dot  is the same chain with the activation rounded to bf16 too, and zero in the place of
//         what is below the smallest normal number (ops/kernels/strip_product.h);
//   bf16-amx  has both rounded to bf16 and the order of sums of AMX
//         (ops/kernels/tile_product.h);
//   int8  is an exact sum of products of 8-bit integers, scaled: the weight has one scale a column,
//         its largest magnitude / 127, the activations one a row
//         (ops/kernels/int8_strip_product.h).
#ifndef BEAMWRIGHT_OPS_KERNELS_PACKED_MATMUL_H_
#define BEAMWRIGHT_OPS_KERNELS_PACKED_MATMUL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "ops/base/check.h"
#include "ops/base/precision.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/strip_product.h"
#include "ops/kernels/tiles.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

class PackedMatMul {
 public:
  // Where an element's sum starts, before the terms of the product are added one by one.
  struct Start {
    absl::Span<const float> bias;  // [columns], or empty
    bool from_output = false;      // adds to the values in `out`, and the bias
  };

  // Activations as the product reads them, and the memory for that: keep it from product to
  // product, so that steady steps allocate nothing.
  struct Activations {
    ConstMatrix<float> rows;
    std::vector<float> spread;       // f32, bf16: holds `rows` if they shared sets of a cache
    int64_t stride = 0;              // elements from row to row of one of the others
    std::vector<Bf16Pair> pairs;     // bf16-dot, bf16-amx
    std::vector<uint8_t> quantized;  // int8, and
    std::vector<float> scales;
  };

  // weight: [depth, columns], or [columns, depth] if `transposed`. Packed; not kept. A weight whose
  // depth is beyond kMaxInt8Depth is kept in f32 instead of int8.
  PackedMatMul(ConstMatrix<float> weight, bool transposed, Precision precision = Precision::kF32);

  // The weight of these columns alone, in their order; each gives the bits that it gives here, of
  // the same Activations. Columns must lie in [0, columns()).
  PackedMatMul Pick(absl::Span<const int32_t> columns) const;

  // int8: the integers of a column, [depth()], in [-127, 127].
  void ReadColumn(int64_t column, absl::Span<int8_t> integers) const;

  int64_t depth() const { return depth_; }
  int64_t columns() const { return columns_; }
  Precision precision() const { return precision_; }
  // Of the packed weight.
  size_t num_bytes() const { return num_bytes_; }

  // The cost of a product with `rows` rows, as ops/kernels/parallel.h counts it: its multiply-adds,
  // or reading the weight where that takes longer.
  int64_t Work(int64_t rows) const;

  // out [rows, columns] from a [rows, depth]; they must not overlap. On up to num_threads threads
  // where the work pays. Thread-safe.
  void Run(int num_threads, ConstMatrix<float> a, const Start& start, Matrix<float> out) const;

  // The same in two parts, for callers that use a panel of the result while it is in the cache.
  // Prepare is for all rows at once and refers to them; RunPanel gives rows [first_row, first_row +
  // out.rows) and columns [first_column, first_column + out.columns) of the result, on one thread.
  // first_column must be a multiple of 32. start.bias has all columns.
  void Prepare(int num_threads, ConstMatrix<float> a, Activations& activations) const;
  void RunPanel(const Activations& activations, int64_t first_row, int64_t first_column,
                const Start& start, Matrix<float> out) const;

 private:
  template <typename Cell>
  void CopyColumn(int64_t from, int64_t to, PackedMatMul& picked) const;
  // Zeros.
  PackedMatMul(int64_t depth, int64_t columns, Precision precision);
  void Pack(ConstMatrix<float> weight, bool transposed);
  void PackPairs(ConstMatrix<float> weight, bool transposed);
  void PrepareSpread(int num_threads, ConstMatrix<float> a, Activations& activations) const;
  void PreparePairs(int num_threads, ConstMatrix<float> a, Activations& activations) const;
  void PrepareInt8(int num_threads, ConstMatrix<float> a, Activations& activations) const;
  void PackInt8(ConstMatrix<float> weight, bool transposed);

  int64_t depth_ = 0;
  int64_t columns_ = 0;
  Precision precision_;
  size_t num_bytes_ = 0;
  struct Free {
    int64_t bytes = 0;
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], Free> strips_;  // [strips, depth, 32] in the precision's form
  // int8, by column of whole strips: what 1 stands for, and kInt8Zero times the sum.
  std::vector<float> scales_;
  std::vector<int32_t> offsets_;
};

// A product panel by panel, for callers that work on a panel of the result while it is in the
// cache.

// What a thread takes at a time. Columns: enough to share out the products of one cell, and their
// weights stay in its cache while rows pass. Rows: their activations stay there as well.
inline constexpr int64_t kProductPanelColumns = 512;
inline constexpr int64_t kProductTileRows = 112;

// PackedMatMul::Run; use(first column, panel) gets each panel of the result when it has been
// computed, on the thread that computed it.
template <typename Use>
void RunByPanels(const PackedMatMul& weight, int num_threads, ConstMatrix<float> a,
                 const PackedMatMul::Start& start, Matrix<float> out, const Use& use) {
  BW_DCHECK(a.columns == weight.depth() && out.columns == weight.columns() && out.rows == a.rows);
  BW_DCHECK(start.bias.empty() || static_cast<int64_t>(start.bias.size()) == weight.columns());
  static thread_local PackedMatMul::Activations kept;
  PackedMatMul::Activations& activations = kept;  // the calling thread's, in all of them
  weight.Prepare(num_threads, a, activations);
  const int threads = SharingFor(num_threads, weight.Work(a.rows));
  const int64_t panels = CeilDiv(out.columns, kProductPanelColumns);
  const int64_t tile_rows = SharedTile(a.rows, kProductTileRows, panels, threads);
  const int64_t tiles = CeilDiv(a.rows, tile_rows);
  ParallelFor(threads, tiles * panels, [&](int64_t item) {
    // A thread's items follow one another, and most of them share their panel.
    const int64_t row = item % tiles * tile_rows;
    const int64_t column = item / tiles * kProductPanelColumns;
    const Matrix<float> panel{out.row(row) + column, std::min(tile_rows, a.rows - row),
                              std::min(kProductPanelColumns, out.columns - column), out.stride};
    weight.RunPanel(activations, row, column, start, panel);
    use(column, panel);
  });
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_PACKED_MATMUL_H_
