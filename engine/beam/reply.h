// From hypotheses to the reply's message. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_BEAM_REPLY_H_
#define BEAMWRIGHT_ENGINE_BEAM_REPLY_H_

#include <vector>

#include "engine/beam/beam_request.h"

namespace beamwright::engine {

// found: the n-best list, of which the reply may leave equal texts out.
v1::Decoded MakeReply(const BeamRequest& request, std::vector<search::Hypothesis> found);

// Of a request whose targets are all scored.
v1::Scored MakeScored(const BeamRequest& request);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_BEAM_REPLY_H_
