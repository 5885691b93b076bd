#include "ops/kernels/integer_product.h"

#include <algorithm>
#include <cstring>

#include "ops/base/vector_isa.h"
#include "ops/kernels/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright::ops {
namespace {

constexpr int64_t kColumns = 16;  // of a strip
constexpr int64_t kLine = 2 * kColumns;
constexpr int64_t kRows = 4;  // of a block, at most

// Some rows by one strip; sums: [rows, 16].
struct Block {
  const int16_t* a;
  int64_t stride;
  int64_t pairs;
  const int16_t* strip;
  int64_t rows;
  int32_t* sums;
};

void PlainBlock(const Block& block) {
  for (int64_t row = 0; row < block.rows; ++row) {
    const int16_t* const a = block.a + row * block.stride;
    uint32_t sums[kColumns] = {};
    for (int64_t pair = 0; pair < block.pairs; ++pair) {
      const int16_t* const line = block.strip + pair * kLine;
      for (int64_t n = 0; n < kColumns; ++n) {
        sums[n] += static_cast<uint32_t>(int32_t{a[2 * pair]} * line[2 * n] +
                                         int32_t{a[2 * pair + 1]} * line[2 * n + 1]);
      }
    }
    std::memcpy(block.sums + row * kColumns, sums, sizeof(sums));
  }
}

#if defined(__x86_64__)

BW_ALWAYS_INLINE inline int32_t PairAt(const int16_t* a) {
  int32_t pair;
  std::memcpy(&pair, a, sizeof(pair));
  return pair;
}

template <int kCount>
BW_TARGET_AVX512 void Avx512Block(const Block& block) {
  __m512i sums[kCount];
#pragma GCC unroll 4
  for (int row = 0; row < kCount; ++row) {
    sums[row] = _mm512_setzero_si512();
  }
  for (int64_t pair = 0; pair < block.pairs; ++pair) {
    const __m512i line = _mm512_loadu_si512(block.strip + pair * kLine);
#pragma GCC unroll 4
    for (int row = 0; row < kCount; ++row) {
      const __m512i a = _mm512_set1_epi32(PairAt(block.a + row * block.stride + 2 * pair));
      sums[row] = _mm512_add_epi32(sums[row], _mm512_madd_epi16(a, line));
    }
  }
#pragma GCC unroll 4
  for (int row = 0; row < kCount; ++row) {
    _mm512_storeu_si512(block.sums + row * kColumns, sums[row]);
  }
}

template <int kCount>
BW_TARGET_AVX2 void Avx2Block(const Block& block) {
  __m256i sums[kCount][2];
#pragma GCC unroll 4
  for (int row = 0; row < kCount; ++row) {
    sums[row][0] = sums[row][1] = _mm256_setzero_si256();
  }
  for (int64_t pair = 0; pair < block.pairs; ++pair) {
    const auto* const line = reinterpret_cast<const __m256i*>(block.strip + pair * kLine);
    const __m256i low = _mm256_loadu_si256(line);
    const __m256i high = _mm256_loadu_si256(line + 1);
#pragma GCC unroll 4
    for (int row = 0; row < kCount; ++row) {
      const __m256i a = _mm256_set1_epi32(PairAt(block.a + row * block.stride + 2 * pair));
      sums[row][0] = _mm256_add_epi32(sums[row][0], _mm256_madd_epi16(a, low));
      sums[row][1] = _mm256_add_epi32(sums[row][1], _mm256_madd_epi16(a, high));
    }
  }
#pragma GCC unroll 4
  for (int row = 0; row < kCount; ++row) {
    auto* const out = reinterpret_cast<__m256i*>(block.sums + row * kColumns);
    _mm256_storeu_si256(out, sums[row][0]);
    _mm256_storeu_si256(out + 1, sums[row][1]);
  }
}

#endif

void RunBlock(VectorIsa isa, const Block& block) {
#if defined(__x86_64__)
  using Function = void (*)(const Block&);
  static constexpr Function kAvx512[] = {&Avx512Block<1>, &Avx512Block<2>, &Avx512Block<3>,
                                         &Avx512Block<4>};
  static constexpr Function kAvx2[] = {&Avx2Block<1>, &Avx2Block<2>, &Avx2Block<3>, &Avx2Block<4>};
  switch (isa) {
    case VectorIsa::kAmx:
    case VectorIsa::kAvx512:
      return kAvx512[block.rows - 1](block);
    case VectorIsa::kAvx2:
      return kAvx2[block.rows - 1](block);
    case VectorIsa::kPlain:
      break;
  }
#endif
  PlainBlock(block);
}

}  // namespace

PackedIntegers::PackedIntegers(const Tensor& matrix, const Tensor* zero)
    : depth_(matrix.dim(0)), columns_(matrix.dim(1)), pairs_((depth_ + 1) / 2) {
  const int64_t num_strips = (columns_ + kColumns - 1) / kColumns;
  strips_.assign(static_cast<size_t>(num_strips * pairs_ * kLine), 0);
  for (int64_t k = 0; k < depth_; ++k) {
    for (int64_t n = 0; n < columns_; ++n) {
      const int32_t offset = zero == nullptr ? 0 : ByteAt(*zero, zero->num_elements() == 1 ? 0 : n);
      const int64_t line = n / kColumns * pairs_ + k / 2;
      strips_[static_cast<size_t>(line * kLine + n % kColumns * 2 + k % 2)] =
          static_cast<int16_t>(ByteAt(matrix, k * columns_ + n) - offset);
    }
  }
}

void PackedIntegers::Multiply(int num_threads, const int16_t* a, int64_t rows, int32_t* out) const {
  const VectorIsa isa = CurrentVectorIsa();
  const int64_t num_strips = (columns_ + kColumns - 1) / kColumns;
  ParallelFor(num_threads, num_strips, rows * depth_ * columns_ / 16, [&](int64_t strip) {
    int32_t sums[kRows * kColumns];
    const int64_t first = strip * kColumns;
    const int64_t count = std::min(kColumns, columns_ - first);
    for (int64_t row = 0; row < rows; row += kRows) {
      const Block block{
          a + row * stride(),          stride(), pairs_, strips_.data() + strip * pairs_ * kLine,
          std::min(kRows, rows - row), sums};
      RunBlock(isa, block);
      for (int64_t i = 0; i < block.rows; ++i) {
        std::copy_n(sums + i * kColumns, count, out + (row + i) * columns_ + first);
      }
    }
  });
}

}  // namespace beamwright::ops
