// From hypotheses to the reply's message. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_BEAM_REPLY_H_
#define BEAMWRIGHT_ENGINE_BEAM_REPLY_H_

#include <vector>

#include "engine/beam/beam_request.h"

namespace beamwright::engine {

v1::Decoded MakeReply(const BeamRequest& request,
                      const std::vector<search::Hypothesis>& hypotheses);

// Of a request whose targets are all scored.
v1::Scored MakeScored(const BeamRequest& request);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_BEAM_REPLY_H_
