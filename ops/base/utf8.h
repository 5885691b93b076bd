// UTF-8, strictly: what is overlong, a surrogate, beyond U+10FFFF or cut off is not a character.
#ifndef BEAMWRIGHT_OPS_BASE_UTF8_H_
#define BEAMWRIGHT_OPS_BASE_UTF8_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace beamwright {

// Bytes of the character at the start of `text`, 1 to 4; 0 if no valid one starts there (or `text`
// is empty). `code_point`, if not null, is set when the result is not 0.
int Utf8Length(absl::string_view text, char32_t* code_point = nullptr);

// OK, or InvalidArgument that names the byte offset of what is not UTF-8.
absl::Status CheckUtf8(absl::string_view text);

// Characters of a text. It is UTF-8; of other texts the bytes outside [0x80, 0xBF] are counted.
int64_t CountCharacters(absl::string_view text);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_UTF8_H_
