// Parts that text codecs share: GPT-2's printable characters for bytes, pieces that stand for a
// byte (<0xE6>), and the cutting of a text into tokens of a vocabulary. CutText takes the longest
// token each time; where that ends in a place from which no token goes on, CutIntoFewest finds the
// fewest tokens that make up the text, by dynamic programming from the end. Its look-ups are
// bounded, since texts come from callers.
#include "engine/bundle/codec_base.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ops/base/utf8.h"

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

int32_t LongestToken(absl::string_view text, size_t longest, TokenLookUp find, size_t& size) {
  for (size = std::min(longest, text.size()); size > 0; --size) {
    if (const int32_t id = find(text.substr(0, size)); id >= 0) {
      return id;
    }
  }
  return -1;
}

std::vector<int32_t> CutIntoFewest(absl::string_view text, size_t longest, TokenLookUp find) {
  constexpr size_t kMostLookUps = size_t{1} << 22;
  if (text.size() > kMostLookUps / std::max<size_t>(longest, 1)) {
    return {};
  }
  // By byte: how many tokens make up what begins there (-1: none do), and the first of them.
  struct Cut {
    int32_t count = -1;
    int32_t id = -1;
    size_t size = 0;
  };
  std::vector<Cut> cuts(text.size() + 1);
  cuts[text.size()].count = 0;
  for (size_t at = text.size(); at-- > 0;) {
    Cut& best = cuts[at];
    for (size_t size = 1; size <= std::min(longest, text.size() - at); ++size) {
      const int32_t rest = cuts[at + size].count;
      if (rest < 0 || (best.count >= 0 && rest + 1 > best.count)) {
        continue;
      }
      if (const int32_t id = find(text.substr(at, size)); id >= 0) {
        best = {rest + 1, id, size};
      }
    }
  }
  std::vector<int32_t> ids;
  for (size_t at = 0; at < text.size() && cuts[at].count > 0; at += cuts[at].size) {
    ids.push_back(cuts[at].id);
  }
  return ids;
}

std::vector<int32_t> CutText(absl::string_view text, size_t longest, TokenLookUp find) {
  std::vector<int32_t> ids;
  for (absl::string_view rest = text; !rest.empty();) {
    size_t size = 0;
    const int32_t id = LongestToken(rest, longest, find, size);
    if (id < 0) {
      return CutIntoFewest(text, longest, find);
    }
    ids.push_back(id);
    rest.remove_prefix(size);
  }
  return ids;
}

}  // namespace beamwright::bundle
