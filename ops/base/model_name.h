// What models may be called.
#ifndef BEAMWRIGHT_OPS_BASE_MODEL_NAME_H_
#define BEAMWRIGHT_OPS_BASE_MODEL_NAME_H_

#include <string>

#include "absl/status/status.h"

namespace beamwright {

// InvalidArgument unless `name` may name a model: 1 to 128 letters, digits, '.', '_' and '-', no
// dot first.
absl::Status CheckModelName(const std::string& name);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_MODEL_NAME_H_
