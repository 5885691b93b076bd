// Text from files, made safe for a terminal.
#ifndef BEAMWRIGHT_OPS_BASE_PRINTABLE_H_
#define BEAMWRIGHT_OPS_BASE_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace beamwright {

// `text` with control characters, those of Unicode's second block included, and bytes that are no
// UTF-8 written as \n, \x1b and so on; all else stays.
std::string Printable(absl::string_view text);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_PRINTABLE_H_
