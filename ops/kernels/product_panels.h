// A product panel by panel, for callers that work on a panel of the result while it is in the
// cache. Private to kernels/.
#ifndef BEAMWRIGHT_OPS_KERNELS_PRODUCT_PANELS_H_
#define BEAMWRIGHT_OPS_KERNELS_PRODUCT_PANELS_H_

#include <algorithm>
#include <cstdint>

#include "ops/base/check.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {

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

#endif  // BEAMWRIGHT_OPS_KERNELS_PRODUCT_PANELS_H_
