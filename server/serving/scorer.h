// Scorer: calls that score or align given targets, from request to response, the same for every
// protocol. The counterpart of decode.h.
#ifndef BEAMWRIGHT_SERVER_SERVING_SCORER_H_
#define BEAMWRIGHT_SERVER_SERVING_SCORER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "server/serving/core.h"

namespace beamwright::serving {

using ScoreDone = std::function<void(absl::StatusOr<v1::ScoreResponse>)>;
using AlignDone = std::function<void(absl::StatusOr<v1::AlignResponse>)>;

// Scores every source's targets on its own; `done` is called once, as by Decode. A request
// that is an error is refused with it.
void Score(Core& core, absl::StatusOr<v1::ScoreRequest> request, const Caller& caller,
           ScoreDone done);

// The same for alignments.
void Align(Core& core, absl::StatusOr<v1::AlignRequest> request, const Caller& caller,
           const AlignDone& done);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SCORER_H_
