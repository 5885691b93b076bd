// Characters of UTF-8 text.
#ifndef BEAMWRIGHT_SERVER_MODEL_UTF8_H_
#define BEAMWRIGHT_SERVER_MODEL_UTF8_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ops/base/utf8.h"

namespace beamwright::model {

// The characters of `text`, one view into it each; InvalidArgument as CheckUtf8.
absl::Status SplitCharacters(absl::string_view text, std::vector<absl::string_view>& characters);

// `text` with A-Z, the capitals of Latin-1 and of Latin Extended-A (U+0100 to U+017F) in lower
// case, by Unicode's simple mapping, one character to one. All else, invalid bytes too, stays as it
// is.
std::string LowercaseLatin(absl::string_view text);

}  // namespace beamwright::model

#endif  // BEAMWRIGHT_SERVER_MODEL_UTF8_H_
