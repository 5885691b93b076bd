// From a request's `fusion` to the scorers of a search, or of given targets.
#ifndef BEAMWRIGHT_ENGINE_OPTIONS_FUSION_OPTIONS_H_
#define BEAMWRIGHT_ENGINE_OPTIONS_FUSION_OPTIONS_H_

#include <string>
#include <vector>

#include "beamwright/v1/decode.pb.h"
#include "engine/model/decode_model.h"
#include "engine/search/options.h"
#include "engine/status/fault.h"

namespace beamwright::engine {

// Those whose weight is not 0. What is wrong is appended to `faults`: a name that the model does
// not have or that is given twice, a weight that is missing or that it does not allow, too many.
std::vector<search::ScorerWeight> ReadFusion(
    const DecodeModel& model, const google::protobuf::RepeatedPtrField<v1::FusionWeight>& fusion,
    status::Faults& faults);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_OPTIONS_FUSION_OPTIONS_H_
