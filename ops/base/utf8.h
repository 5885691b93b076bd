// Text of files and of users: UTF-8, strictly, its characters, and text made safe for a terminal.
#ifndef BEAMWRIGHT_OPS_BASE_UTF8_H_
#define BEAMWRIGHT_OPS_BASE_UTF8_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace beamwright {

// UTF-8, strictly: what is overlong, a surrogate, beyond U+10FFFF or cut off is not a character.

// Bytes of the character at the start of `text`, 1 to 4; 0 if no valid one starts there (or `text`
// is empty). `code_point`, if not null, is set when the result is not 0.
int Utf8Length(absl::string_view text, char32_t* code_point = nullptr);

// OK, or InvalidArgument that names the byte offset of what is not UTF-8.
absl::Status CheckUtf8(absl::string_view text);

// Characters of a text. It is UTF-8; of other texts the bytes outside [0x80, 0xBF] are counted.
int64_t CountCharacters(absl::string_view text);

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

// Text from files, made safe for a terminal.

// `text` with control characters, those of Unicode's second block included, and bytes that are no
// UTF-8 written as \n, \x1b and so on; all else stays.
std::string Printable(absl::string_view text);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_UTF8_H_
