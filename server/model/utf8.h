// UTF-8, strictly: what is overlong, a surrogate, beyond U+10FFFF or cut off is no character.
#ifndef BEAMWRIGHT_SERVER_MODEL_UTF8_H_
#define BEAMWRIGHT_SERVER_MODEL_UTF8_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace beamwright::model {

// Bytes of the character at the start of `text`, 1 to 4; 0 if no valid one starts there (or `text`
// is empty). `code_point`, if not null, is set when the result is not 0.
int Utf8Length(absl::string_view text, char32_t* code_point = nullptr);

// OK, or InvalidArgument that names the byte offset of what is not UTF-8.
absl::Status CheckUtf8(absl::string_view text);

// The characters of `text`, one view into it each; InvalidArgument as CheckUtf8.
absl::Status SplitCharacters(absl::string_view text, std::vector<absl::string_view>& characters);

// `text` with A-Z, the capitals of Latin-1 and of Latin Extended-A (U+0100 to U+017F) in lower
// case, by Unicode's simple mapping, one character to one. All else, invalid bytes too, stays as it
// is.
std::string LowercaseLatin(absl::string_view text);

}  // namespace beamwright::model

#endif  // BEAMWRIGHT_SERVER_MODEL_UTF8_H_
