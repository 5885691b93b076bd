// When a segment of a source ends, as a request asks for it.
#ifndef BEAMWRIGHT_SERVER_SERVING_ENDPOINT_RULES_H_
#define BEAMWRIGHT_SERVER_SERVING_ENDPOINT_RULES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/recognize.pb.h"
#include "engine/model/decode_model.h"
#include "engine/search/frames/frame_search.h"
#include "server/serving/sound_windows.h"

namespace beamwright::serving {

// Whether segments of sound should end before the source does where a client says nothing.
bool TakesEndpoint(const engine::DecodeModel& model);
// Whether segments are cut from the sound, before the model hears it.
bool CutsSound(const engine::DecodeModel& model);

// Rules in frames of the model, those that are not set as recognize.proto has them; none for a
// model for which sound is cut. InvalidArgument, by field, for what the model cannot follow or what
// is out of range. is_sound: not features.
absl::StatusOr<std::vector<search::EndpointRule>> ReadEndpoint(const v1::Endpoint& endpoint,
                                                               const engine::DecodeModel& model,
                                                               bool is_sound);

// How sound is cut for a model; endpoint: null if the request has none.
SoundWindows::Rules WindowRules(const v1::Endpoint* endpoint, const engine::DecodeModel& model);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_ENDPOINT_RULES_H_
