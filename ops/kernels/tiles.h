// Sizes of what a loop takes at a time.
#ifndef BEAMWRIGHT_OPS_KERNELS_TILES_H_
#define BEAMWRIGHT_OPS_KERNELS_TILES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// b > 0.
inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The height of as few tiles as `most` rows each allow, cut so that the last is not a thin one; at
// least 1.
inline int64_t EvenTile(int64_t rows, int64_t most) {
  return rows <= most ? std::max<int64_t>(rows, 1) : CeilDiv(rows, CeilDiv(rows, most));
}

// The same where threads take tiles and `pieces` other parts of the work: if those are fewer
// than the threads, tiles are lower, down to a block of the product, so that there is one for each.
inline int64_t SharedTile(int64_t rows, int64_t most, int64_t pieces, int64_t threads) {
  constexpr int64_t kBlockRows = 14;
  const int64_t share = pieces < threads ? CeilDiv(rows, CeilDiv(threads, pieces)) : rows;
  return EvenTile(rows, std::min(most, std::max(share, kBlockRows)));
}

// Matrices that a thread keeps from step to step, so that steady steps allocate nothing.

// [rows, columns] in memory of the calling thread, of any content; valid until the thread asks for
// the same matrix again. Owner, a type of the caller, and kSlot distinguish matrices that are in
// use at once.
template <typename Owner, int kSlot>
Matrix<float> ThreadMatrix(int64_t rows, int64_t columns) {
  static thread_local std::vector<float> memory;
  memory.resize(std::max(memory.size(), static_cast<size_t>(rows * columns)));
  return {memory.data(), rows, columns, columns};
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_TILES_H_
