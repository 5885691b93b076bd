// When a segment of a source ends, as a request asks for it, in frames of its model.
#ifndef BEAMWRIGHT_SERVER_SERVING_ENDPOINT_RULES_H_
#define BEAMWRIGHT_SERVER_SERVING_ENDPOINT_RULES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/recognize.pb.h"
#include "engine/model/decode_model.h"
#include "engine/search/frames/endpoint.h"

namespace beamwright::serving {

// Whether segments of what a model hears can end before the source does.
bool TakesEndpoint(const engine::DecodeModel& model);

// Rules of milliseconds, those that are not set as recognize.proto has them. InvalidArgument, by
// field, for what the model cannot follow or what is out of range.
absl::StatusOr<std::vector<search::EndpointRule>> ReadEndpoint(const v1::Endpoint& endpoint,
                                                               const engine::DecodeModel& model);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_ENDPOINT_RULES_H_
