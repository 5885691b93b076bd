// To align is to score one target without its end token and to look at where the attention was. So
// an AlignRequest is answered as a ScoreRequest, whatever the protocol.
#ifndef BEAMWRIGHT_ENGINE_ALIGN_H_
#define BEAMWRIGHT_ENGINE_ALIGN_H_

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"

namespace beamwright::engine {

// The request to score. InvalidArgument without any pair.
absl::StatusOr<v1::ScoreRequest> ToScoreRequest(v1::AlignRequest request);

// What was scored for it, as alignments.
v1::AlignResponse ToAlignResponse(v1::ScoreResponse response);

// An error of the request to score in the terms of the request to align: the field
// "targets[0].text" is "target.text".
absl::Status InAlignTerms(const absl::Status& status);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_ALIGN_H_
