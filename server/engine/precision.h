// The precision of a model's weights: what its bundle asks for, or the caller instead.
#ifndef BEAMWRIGHT_SERVER_ENGINE_PRECISION_H_
#define BEAMWRIGHT_SERVER_ENGINE_PRECISION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/model.pb.h"
#include "ops/base/precision.h"

namespace beamwright::engine {

// "f32", "bf16", "int8" or "auto"; InvalidArgument otherwise.
absl::StatusOr<v1::Precision> ParsePrecision(absl::string_view name);

// `auto` by the CPU. InvalidArgument for a number that this version does not know.
absl::StatusOr<Precision> ResolvePrecision(v1::Precision precision);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_PRECISION_H_
