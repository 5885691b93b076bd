// A square of a matrix with its rows as columns: what transposes and convolutions whose lanes are
// channels are made of.
#ifndef BEAMWRIGHT_OPS_KERNELS_SQUARE_TURN_H_
#define BEAMWRIGHT_OPS_KERNELS_SQUARE_TURN_H_

#include <cstdint>

#include "ops/base/vector_isa.h"

namespace beamwright::ops {

// Most rows and columns of a square.
inline constexpr int64_t kSquare = 16;

// Elements of 32 bits, `stride` of them from row to row.
struct SquareRows {
  const uint32_t* data;
  int64_t stride;
};

// to[column * to_stride + row] = from[row][column] for rows and columns of the square, at most
// kSquare each. Reads and writes nothing else; `to` must not overlap.
void TurnSquare(VectorIsa isa, SquareRows from, int64_t rows, int64_t columns, uint32_t* to,
                int64_t to_stride);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_SQUARE_TURN_H_
