// A few rows times a matrix in two forms, by how the matrix is stored:
//
//   transposed (lines are columns of b): a dot product for each element. Term k goes to lane
//     k mod 16, and AddLanes adds the 16 lanes in a fixed tree. PlainDots, Avx512Dots, Avx2Dots.
//   not transposed (lines are rows of b): out = sum over k of a[k] * line k, a chain of fused
//     multiply-adds for each column. PlainSums, Avx512Sums, Avx2Sums.
//
// 1. A tile is all rows (1 to 6, a template parameter) by a few columns, so that its sums stay in
//    registers while the depth passes once; each line of the matrix is loaded once for all rows.
//    Few rows take more columns at a time: there must be enough independent chains to hide the
//    latency of a multiply-add.
// 2. The last columns, and the last lanes of the depth, are masked. Lanes beyond the depth are left
//    as they are, since adding 0 would turn -0 into 0.
// 3. FunctionFor chooses by instruction set and number of rows.
//
// Every variant computes the chain of PlainDots or PlainSums, so that bits do not depend on the
// machine or on the rows.
#include <algorithm>

#include "ops/base/vector_isa.h"
#include "ops/kernels/math.h"
#include "ops/kernels/matmul.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright::ops {
namespace {

struct Extents {
  int64_t depth;
  int64_t columns;
};

using RowsFunction = void (*)(const FewRows&, const StoredMatrix&, Extents);

// The reference for transposed matrices: a dot product for each element.
void PlainDots(const FewRows& rows, const StoredMatrix& b, Extents extents) {
  for (int row = 0; row < rows.count; ++row) {
    for (int64_t n = 0; n < extents.columns; ++n) {
      const float* const line = b.data + n * b.stride;
      float lanes[kLanes] = {};
      for (int64_t k = 0; k < extents.depth; k += kLanes) {
        const int64_t count = std::min<int64_t>(kLanes, extents.depth - k);
        for (int64_t lane = 0; lane < count; ++lane) {
          lanes[lane] = FusedMultiplyAdd(rows.a[row][k + lane], line[k + lane], lanes[lane]);
        }
      }
      rows.out[row][n] = AddLanes(lanes);
    }
  }
}

// The reference for other matrices: the weighted sum of their lines.
void PlainSums(const FewRows& rows, const StoredMatrix& b, Extents extents) {
  for (int row = 0; row < rows.count; ++row) {
    float* const __restrict sums = rows.out[row];
    std::fill(sums, sums + extents.columns, 0.0f);
    for (int64_t k = 0; k < extents.depth; ++k) {
      const float* const __restrict line = b.data + k * b.stride;
      const float factor = rows.a[row][k];
      for (int64_t n = 0; n < extents.columns; ++n) {
        sums[n] = FusedMultiplyAdd(factor, line[n], sums[n]);
      }
    }
  }
}

#if defined(__x86_64__)

// The last three levels of AddLanes for four sums: lanes of a, b, c, d to [a, b, c, d].
BW_TARGET_AVX2 BW_ALWAYS_INLINE inline __m128 AddFourLanes(__m128 a, __m128 b, __m128 c, __m128 d) {
  const __m128 ab = _mm_add_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
  const __m128 cd = _mm_add_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
  return _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));
}

BW_TARGET_AVX2 BW_ALWAYS_INLINE inline __m128 ToFourLanes(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}

BW_TARGET_AVX512 BW_ALWAYS_INLINE inline __m128 ToFourLanes(__m512 sum) {
  return ToFourLanes(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps(sum, 1));
}

template <int kCount>
BW_TARGET_AVX2 BW_ALWAYS_INLINE inline void StoreSums(const __m128 (&lanes)[kCount], float* out) {
  if constexpr (kCount % 4 == 0) {
    for (int i = 0; i < kCount; i += 4) {
      _mm_storeu_ps(out + i, AddFourLanes(lanes[i], lanes[i + 1], lanes[i + 2], lanes[i + 3]));
    }
  } else {
    for (int i = 0; i < kCount; ++i) {
      out[i] = _mm_cvtss_f32(AddFourLanes(lanes[i], lanes[i], lanes[i], lanes[i]));
    }
  }
}

// Few rows take more columns at a time, so that there are enough independent sums.
constexpr int Avx512Columns(int rows) { return rows <= 2 ? 8 : 4; }

// Dot products with columns [first, first + kColumns).
template <int kRows, int kColumns>
BW_TARGET_AVX512 BW_ALWAYS_INLINE inline void Avx512DotTile(const FewRows& rows,
                                                            const StoredMatrix& b, int64_t depth,
                                                            int64_t first) {
  const float* const lines = b.data + first * b.stride;
  __m512 sums[kRows][kColumns];
#pragma GCC unroll 6
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int column = 0; column < kColumns; ++column) {
      sums[row][column] = _mm512_setzero_ps();
    }
  }
  int64_t k = 0;
  for (; k + kLanes <= depth; k += kLanes) {
    __m512 line[kColumns];
#pragma GCC unroll 8
    for (int column = 0; column < kColumns; ++column) {
      line[column] = _mm512_loadu_ps(lines + column * b.stride + k);
    }
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
      const __m512 a = _mm512_loadu_ps(rows.a[row] + k);
#pragma GCC unroll 8
      for (int column = 0; column < kColumns; ++column) {
        sums[row][column] = _mm512_fmadd_ps(a, line[column], sums[row][column]);
      }
    }
  }
  if (k < depth) {
    // Lanes beyond the depth stay as they are: adding 0 would turn -0 into 0.
    const auto mask = static_cast<__mmask16>((1U << (depth - k)) - 1);
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
      const __m512 a = _mm512_maskz_loadu_ps(mask, rows.a[row] + k);
#pragma GCC unroll 8
      for (int column = 0; column < kColumns; ++column) {
        const __m512 line = _mm512_maskz_loadu_ps(mask, lines + column * b.stride + k);
        sums[row][column] = _mm512_mask3_fmadd_ps(a, line, sums[row][column], mask);
      }
    }
  }
#pragma GCC unroll 6
  for (int row = 0; row < kRows; ++row) {
    __m128 lanes[kColumns];
#pragma GCC unroll 8
    for (int column = 0; column < kColumns; ++column) {
      lanes[column] = ToFourLanes(sums[row][column]);
    }
    StoreSums(lanes, rows.out[row] + first);
  }
}

template <int kRows>
BW_TARGET_AVX512 void Avx512Dots(const FewRows& rows, const StoredMatrix& b, Extents extents) {
  constexpr int kColumns = Avx512Columns(kRows);
  int64_t n = 0;
  for (; n + kColumns <= extents.columns; n += kColumns) {
    Avx512DotTile<kRows, kColumns>(rows, b, extents.depth, n);
  }
  for (; n < extents.columns; ++n) {
    Avx512DotTile<kRows, 1>(rows, b, extents.depth, n);
  }
}

// kVectors vectors of 16 columns from `first`; of the last one those of the mask.
template <int kRows, int kVectors>
BW_TARGET_AVX512 BW_ALWAYS_INLINE inline void Avx512SumTile(const FewRows& rows,
                                                            const StoredMatrix& b, int64_t depth,
                                                            int64_t first, __mmask16 last) {
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 6
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[row][v] = _mm512_setzero_ps();
    }
  }
  const auto mask = [last](int v) {
    return v == kVectors - 1 ? last : static_cast<__mmask16>(0xffff);
  };
  const float* line = b.data + first;
  for (int64_t k = 0; k < depth; ++k, line += b.stride) {
    __m512 vectors[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      vectors[v] = _mm512_maskz_loadu_ps(mask(v), line + 16 * v);
    }
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
      const __m512 factor = _mm512_set1_ps(rows.a[row][k]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[row][v] = _mm512_fmadd_ps(factor, vectors[v], sums[row][v]);
      }
    }
  }
#pragma GCC unroll 6
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm512_mask_storeu_ps(rows.out[row] + first + 16 * v, mask(v), sums[row][v]);
    }
  }
}

template <int kRows>
BW_TARGET_AVX512 void Avx512Sums(const FewRows& rows, const StoredMatrix& b, Extents extents) {
  constexpr int kVectors = Avx512Columns(kRows);
  constexpr auto kAll = static_cast<__mmask16>(0xffff);
  int64_t n = 0;
  for (; n + 16 * kVectors <= extents.columns; n += 16 * kVectors) {
    Avx512SumTile<kRows, kVectors>(rows, b, extents.depth, n, kAll);
  }
  for (; n < extents.columns; n += 16) {
    const int64_t left = std::min<int64_t>(extents.columns - n, 16);
    Avx512SumTile<kRows, 1>(rows, b, extents.depth, n, static_cast<__mmask16>((1U << left) - 1));
  }
}

// The first `count` of eight lanes.
BW_TARGET_AVX2 BW_ALWAYS_INLINE inline __m256i FirstLanes(int64_t count) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lanes);
}

// Dot products column by column; half h holds lanes [8 h, 8 h + 8).
template <int kRows>
BW_TARGET_AVX2 void Avx2Dots(const FewRows& rows, const StoredMatrix& b, Extents extents) {
  constexpr int kHalves = kLanes / 8;
  const int64_t whole = extents.depth / kLanes * kLanes;
  for (int64_t n = 0; n < extents.columns; ++n) {
    const float* const line = b.data + n * b.stride;
    __m256 sums[kRows][kHalves];
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
      sums[row][0] = _mm256_setzero_ps();
      sums[row][1] = _mm256_setzero_ps();
    }
    for (int64_t k = 0; k < whole; k += kLanes) {
#pragma GCC unroll 2
      for (int half = 0; half < kHalves; ++half) {
        const __m256 column = _mm256_loadu_ps(line + k + 8 * half);
#pragma GCC unroll 6
        for (int row = 0; row < kRows; ++row) {
          sums[row][half] =
              _mm256_fmadd_ps(_mm256_loadu_ps(rows.a[row] + k + 8 * half), column, sums[row][half]);
        }
      }
    }
    if (whole < extents.depth) {
#pragma GCC unroll 2
      for (int half = 0; half < kHalves; ++half) {
        const int64_t k = whole + 8 * half;
        const __m256i mask = FirstLanes(extents.depth - k);
        const __m256 column = _mm256_maskload_ps(line + k, mask);
#pragma GCC unroll 6
        for (int row = 0; row < kRows; ++row) {
          const __m256 more =
              _mm256_fmadd_ps(_mm256_maskload_ps(rows.a[row] + k, mask), column, sums[row][half]);
          sums[row][half] = _mm256_blendv_ps(sums[row][half], more, _mm256_castsi256_ps(mask));
        }
      }
    }
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
      const __m128 lanes[1] = {ToFourLanes(sums[row][0], sums[row][1])};
      StoreSums(lanes, rows.out[row] + n);
    }
  }
}

// kVectors vectors of 8 columns from `first`; of the last one those of the mask.
template <int kRows, int kVectors>
BW_TARGET_AVX2 BW_ALWAYS_INLINE inline void Avx2SumTile(const FewRows& rows, const StoredMatrix& b,
                                                        int64_t depth, int64_t first,
                                                        __m256i mask) {
  __m256 sums[kRows][kVectors];
#pragma GCC unroll 6
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[row][v] = _mm256_setzero_ps();
    }
  }
  const float* line = b.data + first;
  for (int64_t k = 0; k < depth; ++k, line += b.stride) {
    __m256 vectors[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      vectors[v] = kVectors == 1 ? _mm256_maskload_ps(line, mask) : _mm256_loadu_ps(line + 8 * v);
    }
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
      const __m256 factor = _mm256_broadcast_ss(rows.a[row] + k);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[row][v] = _mm256_fmadd_ps(factor, vectors[v], sums[row][v]);
      }
    }
  }
#pragma GCC unroll 6
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      float* const out = rows.out[row] + first + 8 * v;
      kVectors == 1 ? _mm256_maskstore_ps(out, mask, sums[row][v])
                    : _mm256_storeu_ps(out, sums[row][v]);
    }
  }
}

template <int kRows>
BW_TARGET_AVX2 void Avx2Sums(const FewRows& rows, const StoredMatrix& b, Extents extents) {
  constexpr int kVectors = kRows == 1 ? 8 : kRows <= 3 ? 4 : 2;
  int64_t n = 0;
  for (; n + 8 * kVectors <= extents.columns; n += 8 * kVectors) {
    Avx2SumTile<kRows, kVectors>(rows, b, extents.depth, n, FirstLanes(8));
  }
  for (; n < extents.columns; n += 8) {
    Avx2SumTile<kRows, 1>(rows, b, extents.depth, n, FirstLanes(extents.columns - n));
  }
}

#endif

RowsFunction FunctionFor(VectorIsa isa, bool transposed, [[maybe_unused]] int rows) {
#if defined(__x86_64__)
  static constexpr RowsFunction kAvx512Dots[kMostFewRows] = {&Avx512Dots<1>, &Avx512Dots<2>,
                                                             &Avx512Dots<3>, &Avx512Dots<4>,
                                                             &Avx512Dots<5>, &Avx512Dots<6>};
  static constexpr RowsFunction kAvx512Sums[kMostFewRows] = {&Avx512Sums<1>, &Avx512Sums<2>,
                                                             &Avx512Sums<3>, &Avx512Sums<4>,
                                                             &Avx512Sums<5>, &Avx512Sums<6>};
  static constexpr RowsFunction kAvx2Dots[kMostFewRows] = {
      &Avx2Dots<1>, &Avx2Dots<2>, &Avx2Dots<3>, &Avx2Dots<4>, &Avx2Dots<5>, &Avx2Dots<6>};
  static constexpr RowsFunction kAvx2Sums[kMostFewRows] = {
      &Avx2Sums<1>, &Avx2Sums<2>, &Avx2Sums<3>, &Avx2Sums<4>, &Avx2Sums<5>, &Avx2Sums<6>};
  switch (isa) {
    case VectorIsa::kAmx:
    case VectorIsa::kAvx512:
      return (transposed ? kAvx512Dots : kAvx512Sums)[rows - 1];
    case VectorIsa::kAvx2:
      return (transposed ? kAvx2Dots : kAvx2Sums)[rows - 1];
    case VectorIsa::kPlain:
      break;
  }
#endif
  (void)isa;
  return transposed ? &PlainDots : &PlainSums;
}

}  // namespace

void MultiplyRows(const FewRows& rows, const StoredMatrix& b, int64_t depth, int64_t columns) {
  FunctionFor(CurrentVectorIsa(), b.transposed, rows.count)(rows, b, {depth, columns});
}

}  // namespace beamwright::ops
