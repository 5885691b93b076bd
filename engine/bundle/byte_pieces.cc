#include "engine/bundle/byte_pieces.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/bundle/utf8.h"

namespace beamwright::bundle {

char32_t GptCharacter(int byte) {
  const auto is_printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  if (is_printable(byte)) {
    return static_cast<char32_t>(byte);
  }
  char32_t next = 0x100;
  for (int b = 0; b < byte; ++b) {
    next += is_printable(b) ? 0 : 1;
  }
  return next;
}

absl::flat_hash_map<char32_t, char> GptBytes() {
  absl::flat_hash_map<char32_t, char> table;
  for (int byte = 0; byte < 256; ++byte) {
    table[GptCharacter(byte)] = static_cast<char>(byte);
  }
  return table;
}

std::string BytesOfPiece(absl::string_view token,
                         const absl::flat_hash_map<char32_t, char>& table) {
  std::string bytes;
  for (absl::string_view rest = token; !rest.empty();) {
    char32_t character = 0;
    const int size = Utf8Length(rest, &character);
    const auto found = table.find(character);
    if (size == 0 || found == table.end()) {
      return std::string(token);
    }
    bytes.push_back(found->second);
    rest.remove_prefix(static_cast<size_t>(size));
  }
  return bytes;
}

int ByteOfPiece(absl::string_view piece) {
  uint32_t byte = 0;
  const bool is_byte = piece.size() == 6 && absl::StartsWith(piece, "<0x") && piece.back() == '>' &&
                       absl::SimpleHexAtoi(piece.substr(1, 4), &byte);
  return is_byte ? static_cast<int>(byte) : -1;
}

void AppendUtf8(uint32_t code, std::string& text) {
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
  text.push_back(static_cast<char>(kFirst[more] | (code >> (6 * more))));
  for (int i = more - 1; i >= 0; --i) {
    text.push_back(static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F)));
  }
}

}  // namespace beamwright::bundle
