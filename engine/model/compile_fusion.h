// The graphs besides a model's encoder and decoder: members of an ensemble, scorers, the
// lexical table. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_COMPILE_FUSION_H_
#define BEAMWRIGHT_ENGINE_MODEL_COMPILE_FUSION_H_

#include "absl/status/status.h"
#include "engine/bundle/bundle.h"
#include "engine/model/parts.h"

namespace beamwright::engine {

// Compiles what bundle.config names into `parts`, whose own encoder and decoder are there. Errors
// name the field of model.textproto, or file and line.
absl::Status CompileFusion(bundle::Bundle& bundle, DecodeModel::Parts& parts);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_COMPILE_FUSION_H_
