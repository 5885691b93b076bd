// A complete sound as the source that a model's encoder reads.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_SOUND_SOURCE_H_
#define BEAMWRIGHT_ENGINE_REQUEST_SOUND_SOURCE_H_

#include <vector>

#include "engine/model/parts.h"

namespace beamwright::engine {

// features: all that a FrontEndStream of the model's `sound` appended, at least a frame. As the
// encoder's Parameter: [1, frames, width], [1, width, frames] where its length is axis 2, or [1,
// samples].
ops::Tensor SoundSource(const DecodeModel& model, std::vector<float> features);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_SOUND_SOURCE_H_
