// How sound becomes what a model's encoder reads. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_COMPILE_SOUND_H_
#define BEAMWRIGHT_ENGINE_MODEL_COMPILE_SOUND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "beamwright/v1/model.pb.h"
#include "engine/model/parts.h"
#include "engine/sound/fbank.h"

namespace beamwright::engine {

// The features that the bundle's `sound` asks for. Null without it. InvalidArgument naming the
// field that is wrong, or if the encoder does not read such features.
absl::StatusOr<std::shared_ptr<const sound::Fbank>> CompileSound(const v1::ModelConfig& config,
                                                                 const EncoderPart* encoder);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_COMPILE_SOUND_H_
