// Applies a normalization that SentencePiece compiled into a map from texts to texts
// (precompiled_charsmap), as Hugging Face's tokenizers do.
//
// 1. Parse: a length, a trie of words of 32 bits (a double array, as Darts writes it), and the
//    replacements, which end in zeros.
// 2. Find walks along the trie and returns the replacement of the shortest beginning that has one.
// 3. Apply goes through grapheme clusters (ClusterSize). A short one is looked up as a whole; if it
//    is not found, or is longer, its characters are looked up one by one.
#include "engine/bundle/precompiled_map.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/bundle/split_pattern.h"
#include "engine/bundle/utf8.h"
#include "ops/base/status.h"

namespace beamwright::bundle {
namespace {

// Little-endian.
uint32_t WordAt(absl::string_view bytes, size_t at) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) {
    word |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return word;
}

// Whether no border of grapheme clusters lies before the character (Unicode Standard Annex 29, GB9
// and GB9a): marks but for some of Myanmar, Tai Tham and Ahom, joiners, and a few others.
bool Extends(char32_t c) {
  const auto is_in = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (is_in(0x102B, 0x102C) || c == 0x1038 || is_in(0x1062, 0x1064) || is_in(0x1067, 0x106D) ||
      c == 0x1083 || is_in(0x1087, 0x108C) || c == 0x108F || is_in(0x109A, 0x109C) || c == 0x1A61 ||
      is_in(0x1A63, 0x1A64) || c == 0xAA7B || c == 0xAA7D || is_in(0x11720, 0x11721)) {
    return false;
  }
  return IsMark(c) || is_in(0x200C, 0x200D) || c == 0x0E33 || c == 0x0EB3 ||
         is_in(0xFF9E, 0xFF9F) || is_in(0x1F3FB, 0x1F3FF) || is_in(0xE0020, 0xE007F);
}

// The size of the character that text begins with, and of the marks and joiners behind it; of a
// line's end in two characters both.
size_t ClusterSize(absl::string_view text) {
  if (absl::StartsWith(text, "\r\n")) {
    return 2;
  }
  char32_t c = 0;
  auto size = static_cast<size_t>(std::max(Utf8Length(text, &c), 1));
  const bool is_control = c < 32 || (c >= 127 && c < 160);
  while (!is_control && size < text.size()) {
    const int next = Utf8Length(text.substr(size), &c);
    if (next == 0 || !Extends(c)) {
      break;
    }
    size += static_cast<size_t>(next);
  }
  return size;
}

}  // namespace

absl::StatusOr<PrecompiledMap> PrecompiledMap::Parse(absl::string_view charsmap) {
  std::string bytes;
  PrecompiledMap map;
  const bool is_read = absl::Base64Unescape(charsmap, &bytes) && bytes.size() >= 4;
  const size_t size = is_read ? WordAt(bytes, 0) : 0;
  if (size == 0 || size % 4 != 0 || size > bytes.size() - 4) {
    return Invalid("normalizer: precompiled_charsmap is no charsmap of SentencePiece");
  }
  for (size_t at = 4; at < 4 + size; at += 4) {
    map.units_.push_back(WordAt(bytes, at));
  }
  map.replacements_ = bytes.substr(4 + size);
  map.replacements_.push_back('\0');
  return map;
}

bool PrecompiledMap::Find(absl::string_view text, absl::string_view& replacement) const {
  const auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
  size_t node = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || (units_[node] & ((1u << 31) | 0xFF)) != byte) {
      return false;
    }
    const bool has_value = ((units_[node] >> 8) & 1) != 0;
    node ^= offset(units_[node]);
    if (has_value) {
      const size_t at =
          node < units_.size() ? units_[node] & ((1u << 31) - 1) : replacements_.size();
      if (at >= replacements_.size()) {
        return false;
      }
      replacement = absl::string_view(replacements_.data() + at);
      return true;
    }
  }
  return false;
}

std::string PrecompiledMap::Apply(absl::string_view text) const {
  // Longer ones than that are not looked up as a whole.
  constexpr size_t kLongestCluster = 5;
  std::string made;
  absl::string_view replacement;
  while (!text.empty()) {
    absl::string_view cluster = text.substr(0, ClusterSize(text));
    text.remove_prefix(cluster.size());
    if (cluster.size() <= kLongestCluster && Find(cluster, replacement)) {
      absl::StrAppend(&made, replacement);
      continue;
    }
    while (!cluster.empty()) {
      const absl::string_view part =
          cluster.substr(0, static_cast<size_t>(std::max(Utf8Length(cluster), 1)));
      absl::StrAppend(&made, Find(part, replacement) ? replacement : part);
      cluster.remove_prefix(part.size());
    }
  }
  return made;
}

}  // namespace beamwright::bundle
