// What protobuf's JSON reader takes in silence though the result is not what was written: it drops
// null from lists, flattens lists in lists, and joins members of the same name.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_STRICT_JSON_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_STRICT_JSON_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace beamwright::bundle {

// For JSON that the reader has taken; for other text the result means nothing. InvalidArgument
// names the place: "sources[1].ids.ids[0]: is null; ...".
absl::Status CheckStrictJson(absl::string_view json);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_STRICT_JSON_H_
