// How sound becomes what a model's encoder reads. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_COMPILE_SOUND_H_
#define BEAMWRIGHT_ENGINE_MODEL_COMPILE_SOUND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "beamwright/v1/model.pb.h"
#include "engine/model/parts.h"
#include "engine/sound/front_end.h"

namespace beamwright::engine {

// The features that the bundle's `sound` asks for. Null without it. InvalidArgument naming the
// field that is wrong, or if the encoder does not read such features.
// cmvn: the content of the file that it names.
absl::StatusOr<std::shared_ptr<const sound::FrontEnd>> CompileSound(const v1::ModelConfig& config,
                                                                    const std::string& cmvn,
                                                                    const EncoderPart* encoder);

// Milliseconds of sound to a frame of the search: by what the encoder leaves of a chunk, or of two
// silent sources. 0: not clear. After CompileFrames.
float FrameMsOf(const DecodeModel::Parts& parts);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_COMPILE_SOUND_H_
