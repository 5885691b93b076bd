// The facts of a source and its time in the answers of every search. Private to
// engine/.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_ANSWER_FACTS_H_
#define BEAMWRIGHT_ENGINE_REQUEST_ANSWER_FACTS_H_

#include "absl/time/clock.h"
#include "engine/request/request.h"

namespace beamwright::engine {

// answer: a v1::Decoded or v1::Scored.
template <typename Answer>
void FillFacts(const Request& request, Answer& answer) {
  answer.set_source_length(request.source.source_length);
  answer.mutable_unknown_positions()->Add(request.source.unknown_positions.begin(),
                                          request.source.unknown_positions.end());
  answer.set_queue_ms(absl::ToDoubleMilliseconds(request.started - request.accepted));
  answer.set_compute_ms(absl::ToDoubleMilliseconds(absl::Now() - request.started));
}

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_ANSWER_FACTS_H_
