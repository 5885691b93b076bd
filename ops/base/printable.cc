#include "ops/base/printable.h"

#include "absl/strings/str_format.h"
#include "ops/base/utf8.h"

namespace beamwright {

std::string Printable(absl::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are C2 80 to C2 9F in UTF-8; some terminals obey them.
    const bool second_block = byte == 0xC2 && i + 1 < text.size() &&
                              static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                              static_cast<unsigned char>(text[i + 1]) <= 0x9F;
    if (byte == '\n') {
      result.append("\\n");
    } else if (byte < 0x20 || byte == 0x7F) {
      absl::StrAppendFormat(&result, "\\x%02x", byte);
    } else if (second_block) {
      absl::StrAppendFormat(&result, "\\u%04x", static_cast<unsigned char>(text[++i]));
    } else if (const int length = Utf8Length(text.substr(i)); length == 0) {
      absl::StrAppendFormat(&result, "\\x%02x", byte);
    } else {
      result.append(text.data() + i, static_cast<size_t>(length));
      i += static_cast<size_t>(length) - 1;
    }
  }
  return result;
}

}  // namespace beamwright
