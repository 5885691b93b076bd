#include "ops/kernels/row_quantization.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "ops/base/vector_isa.h"
#include "ops/kernels/math.h"

namespace beamwright::ops {
namespace {

constexpr float kSmallest = 1e-30f;

// x + this has x rounded to an integer in its last bits, for |x| < 2^22.
constexpr float kRounder = 12582912.0f;
constexpr uint32_t kRounderBits = 0x4b400000;

}  // namespace

float QuantizeRow(const float* row, int64_t depth, uint8_t* out) {
  // Magnitudes order as their bits do, NaN above infinity.
  int32_t largest_bits = 0;
  Vectorized([=, &largest_bits]() BW_ALWAYS_INLINE {
    int32_t largest = 0;
    for (int64_t i = 0; i < depth; ++i) {
      const int32_t bits = std::bit_cast<int32_t>(row[i]) & kMagnitudeBits;
      largest = bits > largest ? bits : largest;
    }
    largest_bits = largest;
  });
  const int64_t padded = (depth + kInt8Group - 1) / kInt8Group * kInt8Group;
  const auto largest = std::bit_cast<float>(largest_bits);
  if (largest_bits >= kInfinityBits || largest < kSmallest) {
    std::fill(out, out + padded, static_cast<uint8_t>(kInt8Zero));
    return largest_bits >= kInfinityBits ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  const float factor = 127.0f / largest;
  Vectorized([=]() BW_ALWAYS_INLINE {
    // Bytes that are stored could be those of the captures, for all that the compiler knows: it
    // would load them again each time, and use no vectors.
    const float* const from = row;
    uint8_t* const to = out;
    const int64_t count = depth;
    const float times = factor;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(from[i] * times + kRounder);
      to[i] = static_cast<uint8_t>(bits - kRounderBits + kInt8Zero);
    }
  });
  std::fill(out + depth, out + padded, static_cast<uint8_t>(kInt8Zero));
  return largest / 127.0f;
}

}  // namespace beamwright::ops
