// Compiles what a bundle without a decoder is searched by: a CTC output of its encoder, or a
// transducer's predictor and joiner. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_COMPILE_FRAMES_H_
#define BEAMWRIGHT_ENGINE_MODEL_COMPILE_FRAMES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/parts.h"

namespace beamwright::engine {

// `parts`: with the own encoder, if there is one. Takes the graphs out of the bundle. Errors name
// the field of model.textproto, or the graph and its layer.
absl::StatusOr<std::unique_ptr<FramesPart>> CompileFrames(bundle::Bundle& bundle,
                                                          const DecodeModel::Parts& parts);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_COMPILE_FRAMES_H_
