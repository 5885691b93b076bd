// The message that a search's trace is answered in.
#ifndef BEAMWRIGHT_ENGINE_BEAM_TRACE_REPLY_H_
#define BEAMWRIGHT_ENGINE_BEAM_TRACE_REPLY_H_

#include <vector>

#include "beamwright/v1/decode.pb.h"
#include "engine/bundle/text_codec.h"
#include "engine/search/beam_search.h"

namespace beamwright::engine {

// The search is done and has a trace; `hypotheses` are its answer.
void AddTrace(const search::BeamSearch& search, const bundle::TextCodec& target,
              const std::vector<search::Hypothesis>& hypotheses, v1::SearchTrace& out);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_BEAM_TRACE_REPLY_H_
