// Rows in 8 bits times a weight in 8 bits: what PackedMatMul computes in precision int8.
//
// The weight is stored in strips of 32 columns, [strips][groups][32][4]: groups of 4 of the depth,
// zeros behind the last row and column; numbers in [-127, 127]. Sums are exact in 32 bits, so their
// order, and with it the instruction set, does not matter:
//   AVX-512 VNNI multiplies the unsigned activations, 128 too large, and starts from
//   -128 * (sum of the column);
//   AMX does the same with tiles of rows (ops/kernels/tile_product.h);
//   AVX2 multiplies magnitudes of activations with weights that carry their sign: two products of
//   at most 127 * 127 fit the 16 bits of its intermediate sum, where unsigned activations would
//   saturate.
#ifndef BEAMWRIGHT_OPS_KERNELS_INT8_STRIP_PRODUCT_H_
#define BEAMWRIGHT_OPS_KERNELS_INT8_STRIP_PRODUCT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/strip_product.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// Activations in 8 bits for int8 products: each row by itself, so that no other row can matter.

// Numbers that stand together in a product of 8-bit integers: 4 of the depth, in 32 bits.
inline constexpr int64_t kInt8Group = 4;

// 0 among the unsigned activations.
inline constexpr int kInt8Zero = 128;

// Writes row[i] as kInt8Zero + q[i], q[i] = row[i] * 127 / (largest magnitude), rounded to nearest,
// ties to even, in [-127, 127]; kInt8Zero behind the last up to a whole group. Returns what a q
// stands for: row[i] is about q[i] times that. A row whose magnitudes are all below 1e-30 counts as
// zeros, with 0. A row with a number that is not finite gives NaN, and zeros, so that a product
// with it is NaN. All instruction sets give the same bits.
float QuantizeRow(const float* row, int64_t depth, uint8_t* out);

// Deeper sums could leave 32 bits: 128 * 127 * depth < 2^30.
inline constexpr int64_t kMaxInt8Depth = int64_t{1} << 16;

// Rows as QuantizeRow writes them.
struct Int8Rows {
  const uint8_t* values = nullptr;  // [rows, stride]
  int64_t stride = 0;               // whole groups
  const float* scales = nullptr;    // [rows]
  int64_t rows = 0;
  int64_t depth = 0;
};

struct Int8Strips {
  const int8_t* values = nullptr;    // the first strip, aligned to 64 bytes
  const float* scales = nullptr;     // by column
  const int32_t* offsets = nullptr;  // by column: kInt8Zero times the sum of the column
  bool from_memory = false;          // as of MultiplyStrips
};

// out = start + (scale of the row * scale of the column) * sum: the product of the scales, of that
// and the sum, and the sum of the start are rounded to f32 in this order. scales and offsets have
// whole strips. One thread.
void MultiplyInt8Strips(VectorIsa isa, const Int8Rows& a, const Int8Strips& strips,
                        const ProductStart& start, Matrix<float> out);

// Sums alone: of a block of rows and of columns, [rows, stride], the first of which are `row` and
// `column` of all.
struct StripSums {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
  const int32_t* sums = nullptr;
  int64_t stride = 0;
};

// The sums of rows as they stand, [0, 255], by numbers in [-128, 127], wrapping at 32 bits; a's
// scales are not read. strips: the first, aligned to 64 bytes. Each block is reported once. One
// thread.
void SumByteStrips(VectorIsa isa, const Int8Rows& a, const int8_t* strips, int64_t columns,
                   absl::FunctionRef<void(const StripSums&)> tell);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_INT8_STRIP_PRODUCT_H_
