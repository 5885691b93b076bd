#include "server/http/unescape.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace beamwright::http {

bool Unescape(absl::string_view text, std::string& out) {
  out.clear();
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const absl::string_view digits = text.substr(i + 1, 2);
    if (digits.size() < 2 || digits == "00" ||
        !std::all_of(digits.begin(), digits.end(),
                     [](unsigned char c) { return absl::ascii_isxdigit(c); })) {
      return false;
    }
    out += absl::HexStringToBytes(digits);
    i += 2;
  }
  return true;
}

}  // namespace beamwright::http
