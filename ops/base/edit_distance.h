// How far two names are from each other: for messages that say which one was meant.
#ifndef BEAMWRIGHT_OPS_BASE_EDIT_DISTANCE_H_
#define BEAMWRIGHT_OPS_BASE_EDIT_DISTANCE_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace beamwright {

// How many characters have to be inserted, removed or replaced (Levenshtein 1966). Its time is the
// product of the lengths.
size_t EditDistance(absl::string_view a, absl::string_view b);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_EDIT_DISTANCE_H_
