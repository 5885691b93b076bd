#include "server/model/utf8.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"

namespace beamwright::model {
namespace {

char32_t Lower(char32_t c) {
  const bool even = c % 2 == 0;
  if (c >= 'A' && c <= 'Z') return c + 32;
  if (c >= 0xC0 && c <= 0xDE && c != 0xD7) return c + 32;
  if (c == 0x130) return 'i';   // capital I with dot above
  if (c == 0x178) return 0xFF;  // capital Y with diaeresis
  if ((c >= 0x100 && c <= 0x137) || (c >= 0x14A && c <= 0x177)) return even ? c + 1 : c;
  if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17E)) return even ? c : c + 1;
  return c;
}

}  // namespace

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

absl::Status SplitCharacters(absl::string_view text, std::vector<absl::string_view>& characters) {
  characters.clear();
  for (size_t at = 0; at < text.size();) {
    const int length = Utf8Length(text.substr(at));
    if (length == 0) {
      return Invalid("not UTF-8 at byte ", at);
    }
    characters.push_back(text.substr(at, static_cast<size_t>(length)));
    at += static_cast<size_t>(length);
  }
  return absl::OkStatus();
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

std::string LowercaseLatin(absl::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    char32_t c = 0;
    const int length = Utf8Length(text.substr(at), &c);
    const char32_t lower = length == 0 ? c : Lower(c);
    if (length == 0 || lower == c) {
      const size_t bytes = length == 0 ? 1 : static_cast<size_t>(length);
      result.append(text.data() + at, bytes);
      at += bytes;
      continue;
    }
    if (lower < 0x80) {
      result.push_back(static_cast<char>(lower));
    } else {  // all that Lower makes is below U+0180
      result.push_back(static_cast<char>(0xC0 | (lower >> 6)));
      result.push_back(static_cast<char>(0x80 | (lower & 0x3F)));
    }
    at += static_cast<size_t>(length);
  }
  return result;
}

}  // namespace beamwright::model
