// Names of precisions, and what each means for the parts of a model: encoder, decoder's step and
// projection to the vocabulary (ResolvePrecision). A user asks for f32, bf16, int8 or auto. The
// other names say how bf16 or int8 is computed on some CPUs; auto chooses them, and answers name
// them, but no user may ask for them (CheckAskedPrecision).
#include "engine/model/precision.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

struct PrecisionName {
  absl::string_view name;
  v1::Precision precision;
  absl::string_view instead;  // what to ask for; empty: this name
};

constexpr PrecisionName kNames[] = {
    {"f32", v1::PRECISION_F32, ""},
    {"bf16", v1::PRECISION_BF16, ""},
    {"bf16-dot", v1::PRECISION_BF16_DOT, "bf16"},
    {"bf16-amx", v1::PRECISION_BF16_AMX, "bf16"},
    {"int8", v1::PRECISION_INT8, ""},
    {"int8-core", v1::PRECISION_INT8_CORE, "int8"},
    {"auto", v1::PRECISION_AUTO, ""},
};

absl::Status ChosenByAuto(const PrecisionName& name) {
  return Invalid("precision: '", name.name,
                 "' is chosen by auto, where CPU and answers allow it; ask for auto or ",
                 name.instead);
}

std::vector<std::string> Names(bool all) {
  std::vector<std::string> names;
  for (const PrecisionName& known : kNames) {
    if (all || known.instead.empty()) {
      names.emplace_back(known.name);
    }
  }
  return names;
}

absl::Status NotOneOf(absl::string_view name, std::vector<std::string> names) {
  const std::string last = std::move(names.back());
  names.pop_back();
  return Invalid("precision: '", name, "' is not one of ", absl::StrJoin(names, ", "), " and ",
                 last);
}

}  // namespace

std::vector<std::string> PrecisionNames() { return Names(/*all=*/false); }

std::vector<std::string> AllPrecisionNames() { return Names(/*all=*/true); }

absl::StatusOr<v1::Precision> ParsePrecision(absl::string_view name) {
  const absl::StatusOr<v1::Precision> precision = ParseAnyPrecision(name);
  if (!precision.ok()) {
    return NotOneOf(name, PrecisionNames());
  }
  BW_RETURN_IF_ERROR(CheckAskedPrecision(*precision));
  return precision;
}

absl::StatusOr<v1::Precision> ParseAnyPrecision(absl::string_view name) {
  for (const PrecisionName& known : kNames) {
    if (name == known.name) {
      return known.precision;
    }
  }
  return NotOneOf(name, AllPrecisionNames());
}

absl::Status CheckAskedPrecision(v1::Precision precision) {
  for (const PrecisionName& known : kNames) {
    if (precision == known.precision && !known.instead.empty()) {
      return ChosenByAuto(known);
    }
  }
  return absl::OkStatus();
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
