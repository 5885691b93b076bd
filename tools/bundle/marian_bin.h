// Marian's .npz models as .bin files, which graphs are read from.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_MARIAN_BIN_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_MARIAN_BIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "ops/numpy/npz.h"

namespace beamwright::tools {

// The content of the .bin file with the same arrays; its bytes depend on `arrays` alone.
// InvalidArgument: no options (special:model.yml). Unimplemented: types other than f32, and i8 of
// the options.
absl::StatusOr<std::string> MarianBinOf(const ops::TensorMap& arrays);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_MARIAN_BIN_H_
