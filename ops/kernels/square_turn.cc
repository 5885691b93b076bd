#include "ops/kernels/square_turn.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright::ops {
namespace {

void TurnPlain(SquareRows from, int64_t rows, int64_t columns, uint32_t* to, int64_t to_stride) {
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      to[column * to_stride + row] = from.data[row * from.stride + column];
    }
  }
}

#if defined(__x86_64__)

// In four steps, each of which joins what two registers hold: elements of two rows, pairs of these,
// then lanes of 128 bits with four rows each.
BW_TARGET_AVX512 void TurnAvx512(SquareRows from, int64_t rows, int64_t columns, uint32_t* to,
                                 int64_t to_stride) {
  const auto mask = [](int64_t count) BW_TARGET_AVX512 BW_ALWAYS_INLINE {
    return static_cast<__mmask16>((uint32_t{1} << count) - 1);
  };
  const __mmask16 read = mask(columns);
  __m512i a[16];
  __m512i b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    a[i] = i < rows ? _mm512_maskz_loadu_epi32(read, from.data + i * from.stride)
                    : _mm512_setzero_si512();
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[4 * i] = _mm512_unpacklo_epi64(b[4 * i], b[4 * i + 2]);
    a[4 * i + 1] = _mm512_unpackhi_epi64(b[4 * i], b[4 * i + 2]);
    a[4 * i + 2] = _mm512_unpacklo_epi64(b[4 * i + 1], b[4 * i + 3]);
    a[4 * i + 3] = _mm512_unpackhi_epi64(b[4 * i + 1], b[4 * i + 3]);
  }
  // Lane k of a[4 * i + j]: rows 4 * i and on of column 4 * k + j.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    b[j] = _mm512_shuffle_i32x4(a[j], a[4 + j], 0x88);
    b[4 + j] = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0x88);
    b[8 + j] = _mm512_shuffle_i32x4(a[j], a[4 + j], 0xdd);
    b[12 + j] = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0xdd);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    a[j] = _mm512_shuffle_i32x4(b[j], b[4 + j], 0x88);
    a[8 + j] = _mm512_shuffle_i32x4(b[j], b[4 + j], 0xdd);
    a[4 + j] = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0x88);
    a[12 + j] = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0xdd);
  }
  const __mmask16 written = mask(rows);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (i < columns) {
      _mm512_mask_storeu_epi32(to + i * to_stride, written, a[i]);
    }
  }
}

#endif

}  // namespace

void TurnSquare(VectorIsa isa, SquareRows from, int64_t rows, int64_t columns, uint32_t* to,
                int64_t to_stride) {
#if defined(__x86_64__)
  if (isa == VectorIsa::kAvx512 || isa == VectorIsa::kAmx) {
    return TurnAvx512(from, rows, columns, to, to_stride);
  }
#endif
  (void)isa;
  TurnPlain(from, rows, columns, to, to_stride);
}

}  // namespace beamwright::ops
