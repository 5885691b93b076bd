#include "engine/model/precision.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "ops/base/status.h"

namespace beamwright::engine {

namespace {

constexpr std::pair<absl::string_view, v1::Precision> kNames[] = {
    {"f32", v1::PRECISION_F32},           {"bf16", v1::PRECISION_BF16},
    {"bf16-dot", v1::PRECISION_BF16_DOT}, {"bf16-amx", v1::PRECISION_BF16_AMX},
    {"int8", v1::PRECISION_INT8},         {"int8-core", v1::PRECISION_INT8_CORE},
    {"auto", v1::PRECISION_AUTO}};

}  // namespace

std::vector<std::string> PrecisionNames() {
  std::vector<std::string> names;
  for (const auto& [name, precision] : kNames) {
    names.emplace_back(name);
  }
  return names;
}

absl::StatusOr<v1::Precision> ParsePrecision(absl::string_view name) {
  for (const auto& [known, precision] : kNames) {
    if (name == known) {
      return precision;
    }
  }
  std::vector<std::string> names = PrecisionNames();
  const std::string last = std::move(names.back());
  names.pop_back();
  return Invalid("precision: '", name, "' is not one of ", absl::StrJoin(names, ", "), " and ",
                 last);
}

absl::StatusOr<PartPrecisions> ResolvePrecision(v1::Precision precision) {
  constexpr auto kF32 = Precision::kF32;
  constexpr auto kBf16 = Precision::kBf16;
  constexpr auto kBf16Dot = Precision::kBf16Dot;
  constexpr auto kBf16Amx = Precision::kBf16Amx;
  constexpr auto kInt8 = Precision::kInt8;
  switch (precision) {
    case v1::PRECISION_F32:
      return PartPrecisions{"f32", kF32, kF32, kF32};
    case v1::PRECISION_BF16:
      return PartPrecisions{"bf16", kBf16, kBf16, kBf16};
    case v1::PRECISION_BF16_DOT:
      return PartPrecisions{"bf16-dot", kBf16Dot, kBf16Dot, kBf16Dot};
    case v1::PRECISION_BF16_AMX:
      return PartPrecisions{"bf16-amx", kBf16Amx, kBf16Amx, kBf16Amx};
    case v1::PRECISION_INT8:
      return PartPrecisions{"int8", kInt8, kInt8, kInt8};
    case v1::PRECISION_INT8_CORE:
      return PartPrecisions{"int8-core", kF32, kInt8, kF32};
    default:
      return Invalid("precision: ", static_cast<int>(precision), " is not known");
  }
}

}  // namespace beamwright::engine
