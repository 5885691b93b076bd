// Zero for what is below the smallest normal number, as instructions for bf16 count it.
#ifndef BEAMWRIGHT_OPS_KERNELS_SUBNORMALS_H_
#define BEAMWRIGHT_OPS_KERNELS_SUBNORMALS_H_

#include <bit>
#include <cstdint>

#include "ops/base/vector_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright::ops {

BW_ALWAYS_INLINE inline float WithoutSubnormals(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return (bits & 0x7f800000) == 0 ? std::bit_cast<float>(bits & 0x80000000) : x;
}

// While one lives, the thread's vector instructions take subnormal numbers for zero, as those for
// bf16 do anyway.
class [[maybe_unused]] ZeroForSubnormals {  // elsewhere than on x86 it does nothing
 public:
#if defined(__x86_64__)
  ZeroForSubnormals() { _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON); }
  ~ZeroForSubnormals() { _mm_setcsr(before_); }
#else
  ZeroForSubnormals() = default;
#endif
  ZeroForSubnormals(const ZeroForSubnormals&) = delete;
  ZeroForSubnormals& operator=(const ZeroForSubnormals&) = delete;

#if defined(__x86_64__)
 private:
  const unsigned before_ = _mm_getcsr();
#endif
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_SUBNORMALS_H_
