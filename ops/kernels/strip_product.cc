// A product is cut into blocks of rows by strips of 32 columns, small enough that the sums of a
// block stay in registers while the depth passes once:
//
//   for each group of strips              a group: 1 to 4 strips; few rows take several strips, so
//     for each block of rows              that there are enough independent chains of multiply-adds
//       sums = bias, or 0, or the output
//       for k in depth                    a[row][k] is broadcast for each row, the lines of the
//         sums += a[row][k] * line[k]     strips are loaded once for all rows
//       output = sums
//
// 1. The block functions: PlainBlock is the reference, Avx512Block keeps up to 14 rows (28 of 32
//    registers hold sums), Avx2Block up to 6 rows of one strip.
// 2. KernelsFor: the tables by number of rows from which a product takes its blocks.
// 3. PartialStrip: the last strip, whose columns behind the output go into a separate buffer.
// 4. MultiplyStrips: the loops, and what is fetched ahead (strip_prefetch.h).
//
// Every element is the same chain of operations in each of them, so the tables decide only speed.
#include "ops/kernels/strip_product.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/base/cpu.h"
#include "ops/kernels/strip_prefetch.h"
#include "ops/kernels/subnormals.h"
#include "ops/kernels/tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright::ops {
namespace {

template <typename Weight>
using Activation = typename ActivationFor<Weight>::Type;

// A block of rows and whole strips.
template <typename Weight>
struct Block {
  const Activation<Weight>* a;
  int64_t a_stride;
  int64_t depth;
  const Weight* strips;
  const float* bias;  // or null
  bool from_output;
  float* out;
  int64_t out_stride;
  NextStrips next;
  int64_t bytes_ahead;
};

template <typename Weight>
using BlockFunction = void (*)(const Block<Weight>&);

// A term more: of column n of one line of a strip.
float Add(float sum, float a, const float* line, int64_t n) { return std::fma(a, line[n], sum); }
float Add(float sum, float a, const Bf16* line, int64_t n) {
  return std::fma(a, std::bit_cast<float>(static_cast<uint32_t>(line[Bf16Place(n)].bits) << 16),
                  sum);
}

float Add(float sum, Bf16Pair a, const Bf16Pair* line, int64_t n) {
  const float begun =
      WithoutSubnormals(std::fma(FirstOf(a), FirstOf(line[n]), WithoutSubnormals(sum)));
  return WithoutSubnormals(std::fma(SecondOf(a), SecondOf(line[n]), begun));
}

// What a sum starts from: without subnormal numbers also where no mode of the thread takes them for
// zero.
template <typename Weight>
float Start(float bias, float before) {
  if constexpr (std::is_same_v<Weight, Bf16Pair>) {
    return WithoutSubnormals(bias) + WithoutSubnormals(before);
  }
  return bias + before;
}

template <typename Weight, int kRows>
void PlainBlock(const Block<Weight>& block) {
  for (int row = 0; row < kRows; ++row) {
    const Activation<Weight>* a = block.a + row * block.a_stride;
    float* out = block.out + row * block.out_stride;
    float sums[kStripColumns];
    for (int64_t n = 0; n < kStripColumns; ++n) {
      sums[n] = Start<Weight>(block.bias == nullptr ? 0.0f : block.bias[n],
                              block.from_output ? out[n] : 0.0f);
    }
    for (int64_t k = 0; k < block.depth; ++k) {
      for (int64_t n = 0; n < kStripColumns; ++n) {
        sums[n] = Add(sums[n], a[k], block.strips + k * kStripColumns, n);
      }
    }
    std::copy(sums, sums + kStripColumns, out);
  }
}

#if defined(__x86_64__)

constexpr int64_t kCacheLine = 64;

// Columns 0 to 15 and 16 to 31 of a line.
BW_TARGET_AVX512 BW_ALWAYS_INLINE inline void Load(const float* line, __m512& low, __m512& high) {
  low = _mm512_load_ps(line);
  high = _mm512_load_ps(line + 16);
}

BW_TARGET_AVX512 BW_ALWAYS_INLINE inline void Load(const Bf16* line, __m512& low, __m512& high) {
  const __m512i pairs = _mm512_load_si512(line);
  low = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  high = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)));
}

BW_TARGET_AVX512 BW_ALWAYS_INLINE inline void Load(const Bf16Pair* line, __m512& low,
                                                   __m512& high) {
  low = _mm512_load_ps(line);
  high = _mm512_load_ps(line + 16);
}

BW_TARGET_AVX512 BW_ALWAYS_INLINE inline __m512 Broadcast(float a) { return _mm512_set1_ps(a); }
BW_TARGET_AVX512 BW_ALWAYS_INLINE inline __m512 Broadcast(Bf16Pair a) {
  return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(a.bits)));
}

// sum + a * w, of columns as Load gives them.
template <typename Weight>
BW_TARGET_AVX512 BW_ALWAYS_INLINE inline __m512 Add(__m512 sum, __m512 a, __m512 w) {
  if constexpr (std::is_same_v<Weight, Bf16Pair>) {
    // Not the intrinsic: it asks for functions of another target, and these are those of all types.
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(w));
    return sum;
  } else {
    return _mm512_fmadd_ps(a, w, sum);
  }
}

// Columns [at, at + 8) and [16 + at, 24 + at).
BW_TARGET_AVX2 BW_ALWAYS_INLINE inline void Load(const float* line, int64_t at, __m256& low,
                                                 __m256& high) {
  low = _mm256_load_ps(line + at);
  high = _mm256_load_ps(line + 16 + at);
}

BW_TARGET_AVX2 BW_ALWAYS_INLINE inline void Load(const Bf16* line, int64_t at, __m256& low,
                                                 __m256& high) {
  const __m256i pairs = _mm256_load_si256(reinterpret_cast<const __m256i*>(line + 2 * at));
  low = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  high = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-65536)));
}

BW_TARGET_AVX2 BW_ALWAYS_INLINE inline void Load(const Bf16Pair* line, int64_t at, __m256& low,
                                                 __m256& high) {
  low = _mm256_load_ps(reinterpret_cast<const float*>(line) + at);
  high = _mm256_load_ps(reinterpret_cast<const float*>(line) + 16 + at);
}

BW_TARGET_AVX2 BW_ALWAYS_INLINE inline __m256 Broadcast256(const float* a) {
  return _mm256_broadcast_ss(a);
}
BW_TARGET_AVX2 BW_ALWAYS_INLINE inline __m256 Broadcast256(const Bf16Pair* a) {
  return _mm256_broadcast_ss(reinterpret_cast<const float*>(a));
}

BW_TARGET_AVX2 BW_ALWAYS_INLINE inline __m256 First(__m256 pairs) {
  return _mm256_and_ps(pairs, _mm256_castsi256_ps(_mm256_set1_epi32(-65536)));
}
BW_TARGET_AVX2 BW_ALWAYS_INLINE inline __m256 Second(__m256 pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16));
}

template <typename Weight>
BW_TARGET_AVX2 BW_ALWAYS_INLINE inline __m256 Add(__m256 sum, __m256 a, __m256 w) {
  if constexpr (std::is_same_v<Weight, Bf16Pair>) {
    return _mm256_fmadd_ps(Second(a), Second(w), _mm256_fmadd_ps(First(a), First(w), sum));
  } else {
    return _mm256_fmadd_ps(a, w, sum);
  }
}

// kRows rows by kStrips strips, sums in registers: rows * strips * 2 of the 32 that there are.
template <typename Weight, int kRows, int kStrips>
BW_TARGET_AVX512 void Avx512Block(const Block<Weight>& block) {
  constexpr int kVectors = 2 * kStrips;
  const int64_t strip_size = block.depth * kStripColumns;
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      __m512 start =
          block.bias == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(block.bias + 16 * v);
      if (block.from_output) {
        start = _mm512_add_ps(start, _mm512_loadu_ps(block.out + row * block.out_stride + 16 * v));
      }
      sums[row][v] = start;
    }
  }
  const Weight* weights = block.strips;
  [[maybe_unused]] const char* next = block.next.first;
  for (int64_t k = 0; k < block.depth; ++k, weights += kStripColumns) {
    if constexpr (kRows >= kMinRowsToFetchNext) {
      _mm_prefetch(next, _MM_HINT_T1);
      next += block.next.step;
    }
#pragma GCC unroll 4
    for (int strip = 0; strip < kStrips; ++strip) {
      const char* const ahead =
          reinterpret_cast<const char*>(weights + strip * strip_size) + block.bytes_ahead;
      _mm_prefetch(ahead, _MM_HINT_T0);
      if constexpr (sizeof(Weight) * kStripColumns > kCacheLine) {
        _mm_prefetch(ahead + kCacheLine, _MM_HINT_T0);
      }
    }
    __m512 w[kVectors];
#pragma GCC unroll 4
    for (int strip = 0; strip < kStrips; ++strip) {
      Load(weights + strip * strip_size, w[2 * strip], w[2 * strip + 1]);
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const __m512 factor = Broadcast(block.a[row * block.a_stride + k]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[row][v] = Add<Weight>(sums[row][v], factor, w[v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_ps(block.out + row * block.out_stride + 16 * v, sums[row][v]);
    }
  }
}

// Where vector v of 8 columns stands: a load gives one of each half of a strip.
constexpr int64_t Avx2Column(int v) { return 8 * (v / 2) + 16 * (v % 2); }

// kRows rows by one strip, in 4 / kVectors passes of kVectors vectors: 16 registers hold no more.
template <typename Weight, int kRows, int kVectors>
BW_TARGET_AVX2 void Avx2Block(const Block<Weight>& block) {
  for (int64_t column = 0; column < 16; column += 4 * kVectors) {
    __m256 sums[kRows][kVectors];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = column + Avx2Column(v);
        __m256 start =
            block.bias == nullptr ? _mm256_setzero_ps() : _mm256_loadu_ps(block.bias + at);
        if (block.from_output) {
          start = _mm256_add_ps(start, _mm256_loadu_ps(block.out + row * block.out_stride + at));
        }
        sums[row][v] = start;
      }
    }
    const Weight* weights = block.strips;
    for (int64_t k = 0; k < block.depth; ++k, weights += kStripColumns) {
      __m256 w[kVectors];
#pragma GCC unroll 2
      for (int pair = 0; pair < kVectors / 2; ++pair) {
        Load(weights, column + 8 * pair, w[2 * pair], w[2 * pair + 1]);
      }
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        const __m256 factor = Broadcast256(block.a + row * block.a_stride + k);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          sums[row][v] = Add<Weight>(sums[row][v], factor, w[v]);
        }
      }
    }
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        _mm256_storeu_ps(block.out + row * block.out_stride + column + Avx2Column(v), sums[row][v]);
      }
    }
  }
}

#endif

// How an instruction set cuts a product: rows at once, and for each number of rows the strips at
// once (few rows need several, to have enough independent sums) and the functions for several
// strips and for one.
template <typename Weight>
struct Kernels {
  int most_rows;
  const int* strips;                     // [most_rows + 1]
  const BlockFunction<Weight>* several;  // [most_rows + 1]
  const BlockFunction<Weight>* one;      // [most_rows + 1]
  // [strips[1] + 1]: of one row, by number of strips, so that those which are left over do not wait
  // for one another; null where a row takes one strip at once.
  const BlockFunction<Weight>* of_a_row = nullptr;
};

template <typename Weight>
Kernels<Weight> KernelsFor(VectorIsa isa) {
  using W = Weight;
  static constexpr int kPlainStrips[] = {0, 1};
  static constexpr BlockFunction<W> kPlainOne[] = {nullptr, &PlainBlock<W, 1>};
#if defined(__x86_64__)
  static constexpr int kAvx512Strips[] = {0, 4, 4, 4, 3, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1};
  static constexpr BlockFunction<W> kAvx512Several[] = {nullptr,
                                                        &Avx512Block<W, 1, 4>,
                                                        &Avx512Block<W, 2, 4>,
                                                        &Avx512Block<W, 3, 4>,
                                                        &Avx512Block<W, 4, 3>,
                                                        &Avx512Block<W, 5, 2>,
                                                        &Avx512Block<W, 6, 2>,
                                                        &Avx512Block<W, 7, 2>,
                                                        &Avx512Block<W, 8, 1>,
                                                        &Avx512Block<W, 9, 1>,
                                                        &Avx512Block<W, 10, 1>,
                                                        &Avx512Block<W, 11, 1>,
                                                        &Avx512Block<W, 12, 1>,
                                                        &Avx512Block<W, 13, 1>,
                                                        &Avx512Block<W, 14, 1>};
  static constexpr BlockFunction<W> kAvx512One[] = {nullptr,
                                                    &Avx512Block<W, 1, 1>,
                                                    &Avx512Block<W, 2, 1>,
                                                    &Avx512Block<W, 3, 1>,
                                                    &Avx512Block<W, 4, 1>,
                                                    &Avx512Block<W, 5, 1>,
                                                    &Avx512Block<W, 6, 1>,
                                                    &Avx512Block<W, 7, 1>,
                                                    &Avx512Block<W, 8, 1>,
                                                    &Avx512Block<W, 9, 1>,
                                                    &Avx512Block<W, 10, 1>,
                                                    &Avx512Block<W, 11, 1>,
                                                    &Avx512Block<W, 12, 1>,
                                                    &Avx512Block<W, 13, 1>,
                                                    &Avx512Block<W, 14, 1>};
  static constexpr BlockFunction<W> kAvx512OfARow[] = {nullptr, &Avx512Block<W, 1, 1>,
                                                       &Avx512Block<W, 1, 2>, &Avx512Block<W, 1, 3>,
                                                       &Avx512Block<W, 1, 4>};
  static constexpr int kAvx2Strips[] = {0, 1, 1, 1, 1, 1, 1};
  static constexpr BlockFunction<W> kAvx2One[] = {nullptr,
                                                  &Avx2Block<W, 1, 4>,
                                                  &Avx2Block<W, 2, 4>,
                                                  &Avx2Block<W, 3, 4>,
                                                  &Avx2Block<W, 4, 2>,
                                                  &Avx2Block<W, 5, 2>,
                                                  &Avx2Block<W, 6, 2>};
  if (std::is_same_v<W, Bf16Pair> && isa >= VectorIsa::kAvx512 && !HasBf16Products()) {
    isa = VectorIsa::kAvx2;
  }
  switch (isa) {
    case VectorIsa::kAmx:
    case VectorIsa::kAvx512:
      return {14, kAvx512Strips, kAvx512Several, kAvx512One, kAvx512OfARow};
    case VectorIsa::kAvx2:
      return {6, kAvx2Strips, kAvx2One, kAvx2One};
    case VectorIsa::kPlain:
      break;
  }
#endif
  (void)isa;
  return {1, kPlainStrips, kPlainOne, kPlainOne};
}

// One strip whose last columns do not exist: computed outside of the output.
template <typename Weight>
void PartialStrip(BlockFunction<Weight> function, int rows, int64_t columns, Block<Weight> block) {
  constexpr int64_t kMostRows = 14;
  float out[kMostRows * kStripColumns] = {};
  float bias[kStripColumns] = {};
  if (block.bias != nullptr) {
    std::copy(block.bias, block.bias + columns, bias);
    block.bias = bias;
  }
  float* const target = block.out;
  const int64_t stride = block.out_stride;
  for (int row = 0; block.from_output && row < rows; ++row) {
    std::copy(target + row * stride, target + row * stride + columns, out + row * kStripColumns);
  }
  block.out = out;
  block.out_stride = kStripColumns;
  function(block);
  for (int row = 0; row < rows; ++row) {
    std::copy(out + row * kStripColumns, out + row * kStripColumns + columns,
              target + row * stride);
  }
}

struct Nothing {};
template <typename Weight>
using SubnormalScope =
    std::conditional_t<std::is_same_v<Weight, Bf16Pair>, ZeroForSubnormals, Nothing>;

}  // namespace

template <typename Weight>
void MultiplyStrips(VectorIsa isa, ConstMatrix<Activation<Weight>> a, const Weight* strips,
                    bool from_memory, const ProductStart& start, Matrix<float> out) {
  [[maybe_unused]] const SubnormalScope<Weight> scope;
  const Kernels<Weight> kernels = KernelsFor<Weight>(isa);
  // Blocks of nearly equal height, so that the last is not a thin one.
  const int64_t height = EvenTile(a.rows, kernels.most_rows);
  const int64_t blocks = CeilDiv(a.rows, height);
  const int64_t depth = a.columns;
  const int64_t whole = out.columns / kStripColumns;
  const int at_once = from_memory ? 1 : kernels.strips[height];
  for (int64_t strip = 0; strip * kStripColumns < out.columns;) {
    const int64_t left = whole - strip;
    const bool takes_rest = left > 1 && a.rows == 1 && kernels.of_a_row != nullptr;
    const int64_t count = left >= at_once ? at_once : takes_rest ? left : 1;
    const int64_t column = strip * kStripColumns;
    const Weight* const own = strips + column * depth;
    const Weight* const next = own + count * kStripColumns * depth;
    const auto line_bytes = static_cast<int64_t>(sizeof(Weight)) * count * kStripColumns;
    for (int64_t row = 0; row < a.rows;) {
      const auto rows = static_cast<int>(std::min(height, a.rows - row));
      const Block<Weight> block{a.row(row),
                                a.stride,
                                depth,
                                own,
                                start.bias == nullptr ? nullptr : start.bias + column,
                                start.from_output,
                                out.row(row) + column,
                                out.stride,
                                ShareOfNext(next, line_bytes, depth, row / height, blocks),
                                BytesAhead(from_memory, rows)};
      if (strip >= whole) {
        PartialStrip(kernels.one[rows], rows, out.columns - column, block);
      } else if (count == kernels.strips[rows]) {
        kernels.several[rows](block);
      } else if (count > 1) {
        kernels.of_a_row[count](block);
      } else {
        // A strip that is left over, or the last of several blocks, whose rows are fewer and would
        // take more strips at once than the others: where there are several, `count` is 1.
        kernels.one[rows](block);
      }
      row += rows;
    }
    strip += count;
  }
}

template void MultiplyStrips(VectorIsa, ConstMatrix<float>, const float*, bool, const ProductStart&,
                             Matrix<float>);
template void MultiplyStrips(VectorIsa, ConstMatrix<float>, const Bf16*, bool, const ProductStart&,
                             Matrix<float>);
template void MultiplyStrips(VectorIsa, ConstMatrix<Bf16Pair>, const Bf16Pair*, bool,
                             const ProductStart&, Matrix<float>);

}  // namespace beamwright::ops
