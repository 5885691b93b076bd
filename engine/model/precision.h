// The precision of a model's weights: what its bundle asks for, or the caller instead.
#ifndef BEAMWRIGHT_ENGINE_MODEL_PRECISION_H_
#define BEAMWRIGHT_ENGINE_MODEL_PRECISION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/model.pb.h"
#include "ops/base/precision.h"

namespace beamwright::engine {

// Every precision by its name: those that a user asks for, and those that only `auto` chooses, by
// the CPU: "bf16-dot", "bf16-amx" and "int8-core". For programs that measure, and for errors.

std::vector<std::string> AllPrecisionNames();

// One of AllPrecisionNames; InvalidArgument otherwise.
absl::StatusOr<v1::Precision> ParseAnyPrecision(absl::string_view name);

// InvalidArgument, with the way out, if only `auto` may choose it: for what a user asks for.
absl::Status CheckAskedPrecision(v1::Precision precision);

// How the parts of a model keep their constant weights.
struct PartPrecisions {
  absl::string_view name = "f32";  // in the numerics class
  Precision encoder = Precision::kF32;
  Precision steps = Precision::kF32;       // of the decoder, but for
  Precision projection = Precision::kF32;  // its product with the vocabulary, where it is split off
};

// What a user asks for: "f32", "bf16", "int8" and "auto" (all: engine/model/precision.h).
std::vector<std::string> PrecisionNames();

// One of these; InvalidArgument otherwise.
absl::StatusOr<v1::Precision> ParsePrecision(absl::string_view name);

// InvalidArgument for `auto`, which depends on the model (engine/auto_precision.h), and for
// a number that this version does not know.
absl::StatusOr<PartPrecisions> ResolvePrecision(v1::Precision precision);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_PRECISION_H_
