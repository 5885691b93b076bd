// The form in which a model's constant weights are kept and multiplied (docs/numerics.md,
// 'Precision'), large tables of embeddings among them. Everything else is f32 in each of them.
#ifndef BEAMWRIGHT_OPS_BASE_PRECISION_H_
#define BEAMWRIGHT_OPS_BASE_PRECISION_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace beamwright {

enum class Precision : uint8_t {
  kF32,
  kBf16,     // weights rounded to bf16, products and sums in f32
  kBf16Dot,  // weights and activations rounded to bf16, sums in f32: what AVX512_BF16 computes
  kBf16Amx,  // the same in the order of sums of AMX
  kInt8,     // weights in 8 bits with a scale per column, activations with a scale per row
};

// "f32", "bf16", "bf16-dot", "bf16-amx", "int8".
absl::string_view Name(Precision precision);

// What `auto` stands for: the fastest on this CPU (docs/performance.md, 'Precision').
Precision FastestPrecision();

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_PRECISION_H_
