// Products of rows with a matrix that was computed, as in attention: a few rows at a time, with
// their sums in registers. Weights that are known at load are packed instead
// (ops/kernels/packed_matmul.h). Every element is one order of fused multiply-adds, which follows
// from the depth and from how the matrix is stored: how many rows or columns are computed together,
// and with which instructions, changes no bit.
#ifndef BEAMWRIGHT_OPS_KERNELS_ROW_PRODUCTS_H_
#define BEAMWRIGHT_OPS_KERNELS_ROW_PRODUCTS_H_

#include <cstdint>

namespace beamwright::ops {

// A matrix b of `depth` by `columns`.
struct StoredMatrix {
  const float* data = nullptr;
  int64_t stride = 0;       // between the lines that follow
  bool transposed = false;  // a line is a column of b, else a row
};

// As many rows as registers have room for.
inline constexpr int kMostFewRows = 6;

struct FewRows {
  int count = 0;
  const float* a[kMostFewRows];  // [depth] each
  float* out[kMostFewRows];      // [columns] each
};

// out[row][n] = sum over k of a[row][k] * b(k, n). If b is transposed, term k goes to lane k mod
// 16, each lane is a chain of fused multiply-adds from 0 in ascending k, and AddLanes
// (ops/kernels/math.h) joins them; otherwise there is one such chain.
void MultiplyRows(const FewRows& rows, const StoredMatrix& b, int64_t depth, int64_t columns);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ROW_PRODUCTS_H_
