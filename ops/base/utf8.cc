#include "ops/base/utf8.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ops/base/status.h"

namespace beamwright {
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

std::string ValidUtf8(absl::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const int size = Utf8Length(bytes);
    absl::StrAppend(&text, size > 0 ? bytes.substr(0, static_cast<size_t>(size)) : "\xEF\xBF\xBD");
    bytes.remove_prefix(static_cast<size_t>(std::max(size, 1)));
  }
  return text;
}

bool BeginsUnspaced(absl::string_view text) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x0E00, 0x0EFF}, {0x1000, 0x109F}, {0x1780, 0x17FF},   {0x2E80, 0x312F},
      {0x31A0, 0x31BF}, {0x31F0, 0x31FF}, {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},
      {0xF900, 0xFAFF}, {0xFF00, 0xFFEF}, {0x1B000, 0x1B16F}, {0x20000, 0x323AF}};
  char32_t c = 0;
  return Utf8Length(text, &c) > 0 &&
         std::any_of(std::begin(kRanges), std::end(kRanges),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

bool EndsUnspaced(absl::string_view text) {
  size_t at = text.size();
  while (at > 0 && (static_cast<unsigned char>(text[at - 1]) & 0xC0) == 0x80) {
    --at;
  }
  return at > 0 && BeginsUnspaced(text.substr(at - 1));
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
