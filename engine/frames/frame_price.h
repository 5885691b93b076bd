// What a request of a search by frames takes: bytes that it holds, steps that it makes. Private to
// engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_FRAME_PRICE_H_
#define BEAMWRIGHT_ENGINE_FRAMES_FRAME_PRICE_H_

#include <cstdint>

#include "engine/frames/frame_request.h"

namespace beamwright::engine {

// An encoder makes a frame of a source position at most, or nearly so.
int64_t PriceFrames(const FrameRequest& request);
// Frames of a segment that a stream's price grows by, or more.
inline constexpr int64_t kFewestPricedFrames = 32;
// Of a source that arrives while it is searched, when its segment has `frames` frames: labels, and
// what hypotheses stand on. Before the first frame: what a request holds that waits for it.
int64_t PriceStream(const FrameRequest& request, int64_t frames);
// Most of them, or of CTC how many it makes.
int CountFrameSteps(const FrameRequest& request);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_FRAME_PRICE_H_
