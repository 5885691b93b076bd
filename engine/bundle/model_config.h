// Reads and checks model.textproto. Private to bundle/.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_MODEL_CONFIG_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_MODEL_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "beamwright/v1/model.pb.h"

namespace beamwright::bundle {

inline constexpr char kConfigName[] = "model.textproto";

// InvalidArgument: all syntax errors with line and column ("12:5: ..."), or, of a file that parses,
// all fields that are missing, out of range or at odds with each other.
absl::StatusOr<v1::ModelConfig> ParseModelConfig(const std::string& text);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_MODEL_CONFIG_H_
