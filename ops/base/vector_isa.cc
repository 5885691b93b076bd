#include "ops/base/vector_isa.h"

#include <algorithm>
#include <atomic>

#include "ops/base/cpu.h"

namespace beamwright {
namespace {

VectorIsa Widest() {
  const absl::string_view name = InstructionSet();
  return HasInt8Tiles() || HasBf16Tiles() ? VectorIsa::kAmx
         : name == "avx512"               ? VectorIsa::kAvx512
         : name == "avx2"                 ? VectorIsa::kAvx2
                                          : VectorIsa::kPlain;
}

std::atomic<VectorIsa>& Current() {
  static std::atomic<VectorIsa> current{Widest()};
  return current;
}

}  // namespace

VectorIsa CurrentVectorIsa() { return Current().load(std::memory_order_relaxed); }

ScopedVectorIsa::ScopedVectorIsa(VectorIsa most) : before_(CurrentVectorIsa()) {
  Current() = std::min(most, Widest());
}

ScopedVectorIsa::~ScopedVectorIsa() { Current() = before_; }

}  // namespace beamwright
