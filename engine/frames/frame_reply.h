// Answers of searches by frames. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_FRAME_REPLY_H_
#define BEAMWRIGHT_ENGINE_FRAMES_FRAME_REPLY_H_

#include <vector>

#include "engine/frames/frame_request.h"

namespace beamwright::engine {

// Of what its search found.
std::vector<v1::Hypothesis> MakeHypotheses(const FrameRequest& request);

// Of a request that is done, and searches; and of one whose targets were given.
v1::Decoded MakeFrameReply(const FrameRequest& request);
v1::Scored MakeFrameScored(const FrameRequest& request);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_FRAME_REPLY_H_
