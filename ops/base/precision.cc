#include "ops/base/precision.h"

#include "ops/base/vector_isa.h"

namespace beamwright {

absl::string_view Name(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return "bf16";
    case Precision::kBf16Dot:
      return "bf16-dot";
    case Precision::kBf16Amx:
      return "bf16-amx";
    case Precision::kInt8:
      return "int8";
    case Precision::kF32:
      break;
  }
  return "f32";
}

Precision FastestPrecision() {
  return CurrentVectorIsa() == VectorIsa::kPlain ? Precision::kF32 : Precision::kInt8;
}

}  // namespace beamwright
