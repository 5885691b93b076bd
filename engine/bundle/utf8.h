// Characters of UTF-8 text.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_UTF8_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_UTF8_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ops/base/utf8.h"

namespace beamwright::bundle {

// The characters of `text`, one view into it each; InvalidArgument as CheckUtf8.
absl::Status SplitCharacters(absl::string_view text, std::vector<absl::string_view>& characters);

// `text` with A-Z, the capitals of Latin-1 and of Latin Extended-A (U+0100 to U+017F) in lower
// case, by Unicode's simple mapping, one character to one. All else, invalid bytes too, stays as it
// is.
std::string LowercaseLatin(absl::string_view text);

// UTF-8 of bytes: U+FFFD for each that belongs to no character.
std::string ValidUtf8(absl::string_view bytes);

// Whether text begins or ends with a character of a script that has no spaces between words: Han,
// Kana, Bopomofo, Thai, Lao, Khmer, Myanmar, and the punctuation and full-width forms used with
// them.
bool BeginsUnspaced(absl::string_view text);
bool EndsUnspaced(absl::string_view text);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_UTF8_H_
