// Reads and checks model.textproto. Private to model/.
#ifndef BEAMWRIGHT_SERVER_MODEL_MODEL_CONFIG_H_
#define BEAMWRIGHT_SERVER_MODEL_MODEL_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "beamwright/v1/model.pb.h"

namespace beamwright::model {

inline constexpr char kConfigName[] = "model.textproto";

// InvalidArgument: all syntax errors with line and column ("12:5: ..."), or, of a file that parses,
// all fields that are missing, out of range or at odds with each other.
absl::StatusOr<v1::ModelConfig> ParseModelConfig(const std::string& text);

}  // namespace beamwright::model

#endif  // BEAMWRIGHT_SERVER_MODEL_MODEL_CONFIG_H_
