// What a request's DecodeOptions say to the search, field by field.
#ifndef BEAMWRIGHT_ENGINE_OPTIONS_READ_OPTIONS_H_
#define BEAMWRIGHT_ENGINE_OPTIONS_READ_OPTIONS_H_

#include "beamwright/v1/decode.pb.h"
#include "engine/model/decode_model.h"
#include "engine/search/options.h"
#include "engine/status/fault.h"

namespace beamwright::engine {

// Fills `search`, but for what depends on the source, from options that have their defaults and
// keep their fields' rules. Adds what is wrong for this model, or excludes each other.
void ReadOptions(const DecodeModel& model, const v1::DecodeOptions& merged,
                 search::SearchOptions& search, status::Faults& faults);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_OPTIONS_READ_OPTIONS_H_
