// Every precision by its name: those that a user asks for, and those that only `auto` chooses, by
// the CPU: "bf16-dot", "bf16-amx" and "int8-core". For programs that measure, and for errors.
#ifndef BEAMWRIGHT_ENGINE_MODEL_ANY_PRECISION_H_
#define BEAMWRIGHT_ENGINE_MODEL_ANY_PRECISION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/model.pb.h"

namespace beamwright::engine {

std::vector<std::string> AllPrecisionNames();

// One of AllPrecisionNames; InvalidArgument otherwise.
absl::StatusOr<v1::Precision> ParseAnyPrecision(absl::string_view name);

// InvalidArgument, with the way out, if only `auto` may choose it: for what a user asks for.
absl::Status CheckAskedPrecision(v1::Precision precision);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_ANY_PRECISION_H_
