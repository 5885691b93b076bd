#include "ops/kernels/packed_matmul.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "ops/base/check.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/strip_product.h"

namespace beamwright::ops {
namespace {

// What a thread takes at a time. Columns: enough to share out the products of one cell, and their
// weights stay in its cache while rows pass. Rows: their activations stay beside them.
constexpr int64_t kPanelColumns = 512;
constexpr int64_t kTileRows = 112;

constexpr size_t kCacheLine = 64;
constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

// Zeros, on huge pages where that pays: a product reads all of a weight, and a large one would miss
// the table of pages at every 4 KiB.
float* AllocateZeros(int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  const size_t rounded = std::max((bytes + kCacheLine - 1) / kCacheLine, size_t{1}) * kCacheLine;
  void* const memory = std::aligned_alloc(kCacheLine, rounded);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  if (bytes >= 2 * kHugePage) {
    const size_t skipped = kPage - reinterpret_cast<uintptr_t>(memory) % kPage;
    madvise(static_cast<char*>(memory) + skipped, bytes - skipped, MADV_HUGEPAGE);  // a wish
  }
  std::fill_n(static_cast<float*>(memory), count, 0.0f);
  return static_cast<float*>(memory);
}

}  // namespace

void PackedMatMul::Free::operator()(float* memory) const { std::free(memory); }

PackedMatMul::PackedMatMul(ConstMatrix<float> weight, bool transposed)
    : depth_(transposed ? weight.columns : weight.rows),
      columns_(transposed ? weight.rows : weight.columns),
      strips_(
          AllocateZeros((columns_ + kStripColumns - 1) / kStripColumns * depth_ * kStripColumns)) {
  for (int64_t n = 0; n < columns_; ++n) {
    float* column =
        strips_.get() + (n / kStripColumns * depth_) * kStripColumns + n % kStripColumns;
    for (int64_t k = 0; k < depth_; ++k) {
      column[k * kStripColumns] = transposed ? weight.row(n)[k] : weight.row(k)[n];
    }
  }
}

void PackedMatMul::Run(int num_threads, ConstMatrix<float> a, const Start& start,
                       Matrix<float> out) const {
  BW_DCHECK(a.columns == depth_ && out.columns == columns_ && out.rows == a.rows);
  BW_DCHECK(start.bias.empty() || static_cast<int64_t>(start.bias.size()) == columns_);
  const VectorIsa isa = CurrentVectorIsa();
  const int64_t tiles = (a.rows + kTileRows - 1) / kTileRows;
  const int64_t panels = (columns_ + kPanelColumns - 1) / kPanelColumns;
  ParallelFor(num_threads, tiles * panels, a.rows * depth_ * columns_, [&](int64_t item) {
    // A thread's items follow one another, and most of them share their panel.
    const int64_t row = item % tiles * kTileRows;
    const int64_t column = item / tiles * kPanelColumns;
    const int64_t rows = std::min(kTileRows, a.rows - row);
    const int64_t width = std::min(kPanelColumns, columns_ - column);
    MultiplyStrips(isa, {a.row(row), rows, depth_, a.stride}, strips_.get() + column * depth_,
                   {start.bias.empty() ? nullptr : start.bias.data() + column, start.from_output},
                   {out.row(row) + column, rows, width, out.stride});
  });
}

}  // namespace beamwright::ops
