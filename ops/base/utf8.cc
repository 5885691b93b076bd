#include "ops/base/utf8.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_format.h"
#include "ops/base/status.h"

namespace beamwright {

int Utf8Length(absl::string_view text, char32_t* code_point) {
  if (text.empty()) {
    return 0;
  }
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  size_t length = 1;
  char32_t value = first;
  char32_t smallest = 0;  // of this length: anything below is overlong
  if (first >= 0x80) {
    if (first >= 0xC0 && first < 0xE0) {
      length = 2, value = first & 0x1Fu, smallest = 0x80;
    } else if (first >= 0xE0 && first < 0xF0) {
      length = 3, value = first & 0x0Fu, smallest = 0x800;
    } else if (first >= 0xF0 && first < 0xF8) {
      length = 4, value = first & 0x07u, smallest = 0x10000;
    } else {
      return 0;
    }
  }
  if (text.size() < length) {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  if (value < smallest || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    return 0;
  }
  if (code_point != nullptr) {
    *code_point = value;
  }
  return static_cast<int>(length);
}

absl::Status CheckUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const int length = Utf8Length(text.substr(at));
    if (length == 0) {
      return Invalid("not UTF-8 at byte ", at);
    }
    at += static_cast<size_t>(length);
  }
  return absl::OkStatus();
}

int64_t CountCharacters(absl::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

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
