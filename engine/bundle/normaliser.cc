// What each normaliser does with a character comes from the package's own answers
// (normaliser_tables.py).
#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/bundle/codec_base.h"
#include "engine/bundle/piece_tokenizer.h"
#include "engine/bundle/split_pattern.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::bundle {
namespace {

// PrecompiledMap: SentencePiece's normalisation as its models and T5's and XLM-R's tokenizer.json
// have it: a double array (Darts) from texts to places in a list of replacements.

// Thread-safe after Parse.
class PrecompiledMap {
 public:
  // charsmap: in base64. InvalidArgument if it is not one.
  static absl::StatusOr<PrecompiledMap> Parse(absl::string_view charsmap);

  // As the package `tokenizers` does it: short characters with their marks first, then single ones.
  std::string Apply(absl::string_view text) const;

 private:
  // The replacement of the shortest beginning that has one; false: none has.
  bool Find(absl::string_view text, absl::string_view& replacement) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a NUL
};

// Applies a normalization that SentencePiece compiled into a map from texts to texts
// (precompiled_charsmap), as Hugging Face's tokenizers do.
//
// 1. Parse: a length, a trie of words of 32 bits (a double array, as Darts writes it), and the
//    replacements, which end in zeros.
// 2. Find walks along the trie and returns the replacement of the shortest beginning that has one.
// 3. Apply goes through grapheme clusters (ClusterSize). A short one is looked up as a whole; if it
//    is not found, or is longer, its characters are looked up one by one.

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

#include "engine/bundle/normaliser_tables.inc"

// Whether an even number of bounds lies above the character: the table has those of runs.
template <size_t kSize>
bool IsInRuns(const uint32_t (&bounds)[kSize], char32_t c) {
  const auto above = std::upper_bound(std::begin(bounds), std::end(bounds), uint32_t{c});
  return (above - std::begin(bounds)) % 2 == 1;
}

char32_t LowerOf(char32_t c) {
  static const auto* const lower = [] {
    auto* map = new absl::flat_hash_map<char32_t, char32_t>;
    for (size_t i = 0; i < std::size(kLowerRuns); i += 4) {
      for (int32_t from = kLowerRuns[i]; from <= kLowerRuns[i + 1]; from += kLowerRuns[i + 2]) {
        (*map)[static_cast<char32_t>(from)] = static_cast<char32_t>(from + kLowerRuns[i + 3]);
      }
    }
    return map;
  }();
  const auto found = lower->find(c);
  return found == lower->end() ? c : found->second;
}

// Appends the canonical decomposition.
void Decompose(char32_t c, std::string& text) {
  static const auto* const starts = [] {
    auto* map = new absl::flat_hash_map<char32_t, size_t>;
    for (size_t i = 0; i < std::size(kDecompositions); i += 2 + kDecompositions[i + 1]) {
      (*map)[kDecompositions[i]] = i + 1;
    }
    return map;
  }();
  constexpr char32_t kHangul = 0xAC00;
  if (c >= kHangul && c <= 0xD7A3) {
    const char32_t place = c - kHangul;
    AppendUtf8(0x1100 + place / 588, text);
    AppendUtf8(0x1161 + place % 588 / 28, text);
    if (place % 28 != 0) {
      AppendUtf8(0x11A7 + place % 28, text);
    }
    return;
  }
  const auto found = starts->find(c);
  if (found == starts->end()) {
    AppendUtf8(c, text);
    return;
  }
  for (size_t i = 1; i <= kDecompositions[found->second]; ++i) {
    AppendUtf8(kDecompositions[found->second + i], text);
  }
}

// A step that treats each character alone.
template <typename Append>
std::function<std::string(absl::string_view)> OfCharacters(Append append) {
  return [append](absl::string_view text) {
    std::string made;
    while (!text.empty()) {
      char32_t c = 0;
      const int size = std::max(Utf8Length(text, &c), 1);
      append(c, made);
      text.remove_prefix(static_cast<size_t>(size));
    }
    return made;
  };
}

void AppendLower(char32_t c, std::string& text) {
  constexpr char32_t kIWithDot = 0x130;  // the only one whose lower case has two characters
  AppendUtf8(c == kIWithDot ? U'i' : LowerOf(c), text);
  if (c == kIWithDot) {
    AppendUtf8(0x307, text);
  }
}

void AppendUnaccented(char32_t c, std::string& text) {
  if (!IsInRuns(kAccents, c)) {
    AppendUtf8(c, text);
  }
}

// BERT's are those of an older Unicode.
void AppendBertUnaccented(char32_t c, std::string& text) {
  if (!IsInRuns(kBertAccents, c)) {
    AppendUtf8(c, text);
  }
}

void AppendClean(char32_t c, std::string& text) {
  if (!IsInRuns(kUnclean, c)) {
    AppendUtf8(IsInRuns(kBertSpaces, c) ? U' ' : c, text);
  }
}

void AppendSpaced(char32_t c, std::string& text) {
  const bool is_chinese = IsInRuns(kChinese, c);
  absl::StrAppend(&text, is_chinese ? " " : "");
  AppendUtf8(c, text);
  absl::StrAppend(&text, is_chinese ? " " : "");
}

std::string Stripped(absl::string_view text, bool left, bool right) {
  char32_t c = 0;
  while (left && !text.empty() && Utf8Length(text, &c) > 0 && IsWhiteSpace(c)) {
    text.remove_prefix(static_cast<size_t>(Utf8Length(text)));
  }
  while (right && !text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) {
      --at;
    }
    if (Utf8Length(text.substr(at), &c) == 0 || !IsWhiteSpace(c)) {
      break;
    }
    text = text.substr(0, at);
  }
  return std::string(text);
}

// Of " {2,}", which XLM-R's files have: the only regular expression that is read.
std::string SpacesJoined(absl::string_view text, const std::string& by) {
  std::string made;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && text[end] == ' ') {
      ++end;
    }
    absl::StrAppend(&made, end - at >= 2 ? absl::string_view(by) : text.substr(at, 1));
    at = end - at >= 2 ? end : at + 1;
  }
  return made;
}

}  // namespace

bool IsWhiteSpace(char32_t c) { return IsInRuns(kWhiteSpaces, c); }
bool IsPunctuation(char32_t c) { return IsInRuns(kPunctuation, c); }

absl::StatusOr<std::vector<Normaliser::Step>> Normaliser::StepsOf(const Json& one,
                                                                  bool strips_next) {
  const absl::string_view type = TypeOf(one);
  std::vector<Step> steps;
  if (type == "NFC") {
    return steps;
  }
  if (type == "NFD" && strips_next) {
    // Without the order of marks, since none is left.
    steps.push_back(OfCharacters(Decompose));
  } else if (type == "Lowercase") {
    steps.push_back(OfCharacters(AppendLower));
  } else if (type == "StripAccents") {
    steps.push_back(OfCharacters(AppendUnaccented));
  } else if (type == "BertNormalizer") {
    const bool lowercase = IsTrue(one, "lowercase", true);
    if (IsTrue(one, "clean_text", true)) {
      steps.push_back(OfCharacters(AppendClean));
    }
    if (IsTrue(one, "handle_chinese_chars", true)) {
      steps.push_back(OfCharacters(AppendSpaced));
    }
    if (IsTrue(one, "strip_accents", lowercase)) {
      steps.push_back(OfCharacters(Decompose));
      steps.push_back(OfCharacters(AppendBertUnaccented));
    }
    if (lowercase) {
      steps.push_back(OfCharacters(AppendLower));
    }
  } else if (type == "Prepend") {
    steps.push_back([prefix = std::string(TextOf(one, "prepend"))](absl::string_view text) {
      return text.empty() ? "" : absl::StrCat(prefix, text);
    });
  } else if (type == "Strip") {
    const bool left = IsTrue(one, "strip_left", true);
    const bool right = IsTrue(one, "strip_right", true);
    steps.push_back([=](absl::string_view text) { return Stripped(text, left, right); });
  } else if (type == "Replace") {
    const Json* const pattern = Member(one, "pattern");
    const std::string by(TextOf(one, "content"));
    const std::string from(pattern == nullptr ? "" : TextOf(*pattern, "String"));
    if (!from.empty()) {
      steps.push_back([=](absl::string_view text) {
        return absl::StrReplaceAll(text, {{from, by}});
      });
    } else if (pattern != nullptr && TextOf(*pattern, "Regex") == " {2,}") {
      steps.push_back([=](absl::string_view text) { return SpacesJoined(text, by); });
    } else {
      return Invalid("normalizer: a Replace is read whose pattern is a String, or ' {2,}'");
    }
  } else if (type == "Precompiled") {
    BW_ASSIGN_OR_RETURN(PrecompiledMap map,
                        PrecompiledMap::Parse(TextOf(one, "precompiled_charsmap")));
    steps.push_back([map = std::make_shared<const PrecompiledMap>(std::move(map))](
                        absl::string_view text) { return map->Apply(text); });
  } else {
    return Invalid(
        "normalizer: '", absl::Utf8SafeCEscape(type),
        "' is not read; BertNormalizer, Lowercase, StripAccents, NFD before it, Replace, "
        "Prepend, Strip, Precompiled and NFC are");
  }
  return steps;
}

absl::StatusOr<Normaliser> Normaliser::Read(const Json* normaliser) {
  Normaliser made;
  const std::vector<const Json*> all = Sequence(normaliser, "normalizers");
  for (size_t i = 0; i < all.size(); ++i) {
    const bool strips_next =
        std::any_of(all.begin() + static_cast<std::ptrdiff_t>(i), all.end(),
                    [](const Json* later) { return TypeOf(*later) == "StripAccents"; });
    BW_ASSIGN_OR_RETURN(std::vector<Step> steps, StepsOf(*all[i], strips_next));
    std::move(steps.begin(), steps.end(), std::back_inserter(made.steps_));
  }
  return made;
}

std::string Normaliser::Apply(absl::string_view text) const {
  std::string made(text);
  for (const Step& step : steps_) {
    made = step(made);
  }
  return made;
}

}  // namespace beamwright::bundle
