#include "server/engine/precision.h"

#include <utility>

#include "ops/base/status.h"

namespace beamwright::engine {

absl::StatusOr<v1::Precision> ParsePrecision(absl::string_view name) {
  static constexpr std::pair<absl::string_view, v1::Precision> kNames[] = {
      {"f32", v1::PRECISION_F32},
      {"bf16", v1::PRECISION_BF16},
      {"int8", v1::PRECISION_INT8},
      {"auto", v1::PRECISION_AUTO}};
  for (const auto& [known, precision] : kNames) {
    if (name == known) {
      return precision;
    }
  }
  return Invalid("precision: '", name, "' is none of f32, bf16, int8 and auto");
}

absl::StatusOr<Precision> ResolvePrecision(v1::Precision precision) {
  switch (precision) {
    case v1::PRECISION_F32:
      return Precision::kF32;
    case v1::PRECISION_BF16:
      return Precision::kBf16;
    case v1::PRECISION_INT8:
      return Precision::kInt8;
    case v1::PRECISION_AUTO:
      return FastestPrecision();
    default:
      return Invalid("precision: ", static_cast<int>(precision), " is not known");
  }
}

}  // namespace beamwright::engine
