// Calls that decode several sources, score or align given targets, from request to response, the
// same for every protocol.
#ifndef BEAMWRIGHT_SERVER_SERVING_DECODE_H_
#define BEAMWRIGHT_SERVER_SERVING_DECODE_H_

#include <functional>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "server/serving/caller.h"
#include "server/serving/core.h"

namespace beamwright::serving {

// What to decode: the request's sources and options with the model that its name stands for.
struct Job {
  ModelPtr model;
  v1::DecodeRequest request;
};

using DecodeDone = std::function<void(absl::StatusOr<v1::DecodeResponse>)>;

// The job of a request: its model looked up. The request's error, or as ModelRegistry::Lookup's.
absl::StatusOr<Job> MakeJob(const ModelRegistry& models, absl::StatusOr<v1::DecodeRequest> request);

// Decodes every source on its own; `done` is called once: at once for a call that is refused, or
// whose sources all are, else on the reply thread or, while it has no other work, the engine's. A
// job that is an error is refused with it, and counted like any other. The call fails as a whole
// for faults of the request (no source, options out of range), while the server refuses calls,
// when it was cancelled, and when no source was decoded (wire_status.h).
void DecodeJob(Core& core, absl::StatusOr<Job> job, const Caller& caller, DecodeDone done);

// The same for a request, whose model is looked up first.
void Decode(Core& core, absl::StatusOr<v1::DecodeRequest> request, const Caller& caller,
            DecodeDone done);

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

#endif  // BEAMWRIGHT_SERVER_SERVING_DECODE_H_
