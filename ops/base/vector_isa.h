// The vector instructions that a kernel runs with, chosen at run time: the programs themselves are
// built for the oldest CPU. Every kernel gives the same bits with each of them (docs/numerics.md,
// 'Instruction sets'), so the choice is a matter of speed alone.
#ifndef BEAMWRIGHT_OPS_BASE_VECTOR_ISA_H_
#define BEAMWRIGHT_OPS_BASE_VECTOR_ISA_H_

#include <type_traits>

namespace beamwright {

enum class VectorIsa {
  kPlain,   // what the compiler makes of plain loops for the oldest CPU: the reference
  kAvx2,    // with FMA
  kAvx512,  // F, BW, DQ and VL
  kAmx,     // those, and tiles for products (ops/kernels/tile_product.h)
};

// The widest that the CPU has, unless a ScopedVectorIsa says otherwise.
VectorIsa CurrentVectorIsa();

// While one lives, kernels of the whole process use `most` at most. For tests and
// benchmarks, of one thread.
class ScopedVectorIsa {
 public:
  explicit ScopedVectorIsa(VectorIsa most);
  ~ScopedVectorIsa();
  ScopedVectorIsa(const ScopedVectorIsa&) = delete;
  ScopedVectorIsa& operator=(const ScopedVectorIsa&) = delete;

 private:
  const VectorIsa before_;
};

#define BW_ALWAYS_INLINE __attribute__((always_inline))
#if defined(__x86_64__)
#define BW_TARGET_AVX2 __attribute__((target("avx2,fma")))
#define BW_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

namespace vector_internal {

template <typename Body>
BW_TARGET_AVX2 void RunAvx2(const Body& body) {
  body();
}

template <typename Body>
BW_TARGET_AVX512 void RunAvx512(const Body& body) {
  body();
}

}  // namespace vector_internal
#endif

// Runs a loop compiled once for each instruction set. `body` is a lambda without arguments, marked
// BW_ALWAYS_INLINE as is whatever it calls (a call that is not inlined keeps the oldest CPU's
// instructions: slow, and as right). Its operations round alike everywhere, since no compiler here
// fuses or reorders them, so that the bits are the same.
template <typename Body>
void Vectorized(const Body& body) {
#if defined(__x86_64__)
  switch (CurrentVectorIsa()) {
    case VectorIsa::kAmx:
    case VectorIsa::kAvx512:
      return vector_internal::RunAvx512(body);
    case VectorIsa::kAvx2:
      return vector_internal::RunAvx2(body);
    case VectorIsa::kPlain:
      break;
  }
#endif
  body();
}

// The same for loops over T where that pays: f32 alone, to keep the programs small.
template <typename T, typename Body>
void VectorizedFor(const Body& body) {
  if constexpr (std::is_same_v<T, float>) {
    Vectorized(body);
  } else {
    body();
  }
}

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_VECTOR_ISA_H_
