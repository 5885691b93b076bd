// Text of files and of users: UTF-8, strictly, and text made safe for a terminal.
#ifndef BEAMWRIGHT_OPS_BASE_UTF8_H_
#define BEAMWRIGHT_OPS_BASE_UTF8_H_

#include <cstdint>
#include <string>

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

// Text from files, made safe for a terminal.

// `text` with control characters, those of Unicode's second block included, and bytes that are no
// UTF-8 written as \n, \x1b and so on; all else stays.
std::string Printable(absl::string_view text);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_UTF8_H_
