// Activations in 8 bits for int8 products: each row by itself, so that no other row can matter.
#ifndef BEAMWRIGHT_OPS_KERNELS_ROW_QUANTIZATION_H_
#define BEAMWRIGHT_OPS_KERNELS_ROW_QUANTIZATION_H_

#include <cstdint>

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ROW_QUANTIZATION_H_
