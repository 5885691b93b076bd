// Blocks of products by AMX, which multiplies a tile of 16 rows and 64 bytes of the depth with one
// of 64 bytes of the depth and 16 columns in one instruction: the innermost kernel of int8 and of
// bf16-amx where the CPU has tiles.
//
// Weights stand as VNNI reads them, which is how a tile does: strips of 32 columns,
// [strips][groups] [32], a group being 4 bytes of the depth: 4 numbers of 8 bits, or 2 bf16.
//
// In 8 bits sums are exact, so they are those of every other kernel. In bf16 the instruction has an
// different order, found by comparing it with scalar arithmetic (TileProduct.* repeat that): of
// the 16 groups of a tile it adds the first halves in one chain of fused multiply-adds that starts
// from zero, the second halves in another one, and then both to the sum so far: sum + (first +
// second). Operands, both chains and the sum count as zero where they are subnormal. Bits depend on
// neither the number of rows of a tile nor their place.
#ifndef BEAMWRIGHT_OPS_KERNELS_TILE_PRODUCT_H_
#define BEAMWRIGHT_OPS_KERNELS_TILE_PRODUCT_H_

#include <algorithm>
#include <cstdint>

#include "ops/base/vector_isa.h"
#include "ops/kernels/strip_prefetch.h"
#include "ops/kernels/strip_product.h"
#include "ops/kernels/tiles.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// Groups of 4 bytes that a tile of the depth has.
inline constexpr int64_t kTileGroups = 16;
inline constexpr int64_t kRowsOfTile = 16;
// Rows of a block at most: two tiles, by one strip. A block of one tile of rows may have two.
inline constexpr int64_t kMostTileRows = 2 * kRowsOfTile;
inline constexpr int64_t kTileLine = 4 * kStripColumns;  // bytes of a strip for one group

// Strides in bytes.
struct TileBlock {
  const void* a;  // [rows, groups] of 4 bytes; int8: unsigned
  int64_t a_stride;
  int64_t rows;
  int64_t groups;        // int8: at least kTileGroups; bf16: whole tiles
  const void* strips;    // int8: signed
  int64_t num_strips;    // 1; or 2, if rows <= kRowsOfTile
  const void* start;     // [rows, 32 * num_strips], int32 or f32: what sums start from
  int64_t start_stride;  // 0: one row for all
  void* sums;            // [rows, 32 * num_strips]
  int64_t sums_stride;
  NextStrips next;
};

// The calling thread's tiles, set up for blocks of some height and given back at the end: while
// they are in use, each switch of threads stores 8 KiB of them.
class Tiles {
 public:
  Tiles() = default;
  ~Tiles();
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  // Only where HasInt8Tiles() or HasBf16Tiles() (ops/base/cpu.h).
  void MultiplyInt8(const TileBlock& block);
  void MultiplyBf16(const TileBlock& block);

 private:
  void Configure(int64_t rows);

  int64_t rows_ = 0;  // that they are set up for; 0: not
};

// A product cut into blocks of tiles: pairs of strips one after the other, each by all rows, while
// it is in the cache.
class TileWalk {
 public:
  struct Item {
    int64_t row;
    int64_t rows;
    int64_t strip;
    int64_t num_strips;
    NextStrips next;
  };

  TileWalk(int64_t rows, int64_t columns, int64_t groups, const void* strips)
      : rows_(rows),
        groups_(groups),
        num_strips_(CeilDiv(columns, kStripColumns)),
        strips_(static_cast<const char*>(strips)) {}

  template <typename Body>
  void ForEach(const Body& body) const {
    const int64_t rest = rows_ % kMostTileRows;
    const int64_t blocks = CeilDiv(rows_, kMostTileRows);
    for (int64_t strip = 0; strip < num_strips_; strip += 2) {
      const int64_t count = std::min<int64_t>(2, num_strips_ - strip);
      const bool last_together = rest > 0 && rest <= kRowsOfTile;
      const int64_t shares = last_together ? (blocks - 1) * count + 1 : blocks * count;
      const char* const next = strips_ + (strip + count) * groups_ * kTileLine;
      int64_t share = 0;
      for (int64_t row = 0; row < rows_; row += kMostTileRows) {
        const int64_t rows = std::min(kMostTileRows, rows_ - row);
        const int64_t width = rows <= kRowsOfTile ? count : 1;
        for (int64_t i = strip; i < strip + count; i += width) {
          body(Item{row, rows, i, width,
                    ShareOfNext(next, count * kTileLine, groups_, share++, shares)});
        }
      }
    }
  }

 private:
  const int64_t rows_;
  const int64_t groups_;
  const int64_t num_strips_;
  const char* strips_;
};

// Rows times a weight, both in bf16, in the order of sums of AMX: what PackedMatMul computes in
// precision bf16-amx.
//
// The weight is stored as for bf16-dot, [strips][pairs][32], the pairs filled up with zeros to
// whole tiles of 16. For each tile of the depth in ascending order, an element of the result is
//
//   sum = sum + (first + second),
//
// where first and second are chains of fused multiply-adds from zero: of the terms that stand in
// the upper halves of the tile's pairs, and in the lower halves. What is subnormal counts as zero:
// operands, start, both chains after each term, and both additions. CPUs without AMX compute the
// same bits, at a third to two thirds of the speed of f32.

// out [rows, columns] from a [rows, pairs], whole tiles of these, zeros at the end. strips: the
// first of ceil(columns / 32), aligned to 64 bytes. One thread.
void MultiplyBf16Tiles(VectorIsa isa, ConstMatrix<Bf16Pair> a, const Bf16Pair* strips,
                       const ProductStart& start, Matrix<float> out);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_TILE_PRODUCT_H_
