// The name that was probably meant by one that does not exist.
#ifndef BEAMWRIGHT_CLIENT_CLI_SUGGESTION_H_
#define BEAMWRIGHT_CLIENT_CLI_SUGGESTION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright::client {

// The one of `names` that begins with `given` if there is only one, else the one with the fewest
// letters to change, add or leave out: a third of them at most. Empty: none is near.
std::string NearestName(absl::string_view given, absl::Span<const std::string> names);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_SUGGESTION_H_
