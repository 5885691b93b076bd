// Guesses how the tokens of a vocabulary are joined to text (FindSubwordMark), from the marks that
// they have, such as "▁" at the beginning of words, "##" or "@@". The table `marks` is in order of
// precedence; the first mark that enough tokens have is taken, and a sentence about it is added to
// `reasons`.
//
// Lists of icefall's byte-level BPE look like SentencePiece's, except that all characters are ASCII
// or one of its letters for bytes, and many are the latter (AreIcefallBytes).
#include "tools/bundle/subword_mark.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/base/utf8.h"

namespace beamwright::tools {
namespace {

constexpr absl::string_view kWordBegin = "\xE2\x96\x81";  // U+2581
constexpr absl::string_view kJoiner = "\xEF\xBF\xAD";     // U+FFED
constexpr absl::string_view kGptSpace = "\xC4\xA0";       // U+0120

// Whether every character is ASCII or a letter with which icefall writes a byte.
bool MayBeIcefallBytes(absl::string_view token) {
  while (!token.empty()) {
    char32_t character = 0;
    const int size = Utf8Length(token, &character);
    const bool fits = size > 0 && ((character >= 32 && character <= 126) || character == 0x2581 ||
                                   (character >= 256 && character <= 422));
    if (!fits) {
      return false;
    }
    token.remove_prefix(static_cast<size_t>(size));
  }
  return true;
}

// Bytes that no ASCII text has are most of what such a list is for.
bool AreIcefallBytes(const std::vector<std::string>& tokens) {
  int64_t letters = 0;
  for (const std::string& token : tokens) {
    if (!MayBeIcefallBytes(token)) {
      return false;
    }
    letters += std::any_of(token.begin(), token.end(),
                           [](char c) { return static_cast<unsigned char>(c) >= 0x80; }) &&
                       token != kWordBegin && !absl::StartsWith(token, kWordBegin)
                   ? 1
                   : 0;
  }
  return letters * 4 > static_cast<int64_t>(tokens.size());
}

}  // namespace

bool LooksSpecial(absl::string_view token) {
  return token.size() > 2 && ((token.front() == '<' && token.back() == '>') ||
                              (token.front() == '[' && token.back() == ']'));
}

std::optional<v1::SubwordMark> FindSubwordMark(const std::string& side,
                                               const std::vector<std::string>& tokens,
                                               std::vector<std::string>& reasons) {
  const auto count = [&](auto test) {
    return std::count_if(tokens.begin(), tokens.end(), [&](const std::string& token) {
      return !LooksSpecial(token) && test(absl::string_view(token));
    });
  };
  const auto begins = [&](absl::string_view mark) {
    return count([mark](absl::string_view token) {
      return token.size() > mark.size() && absl::StartsWith(token, mark);
    });
  };
  const auto ends = [&](absl::string_view mark) {
    return count([mark](absl::string_view token) {
      return token.size() > mark.size() && absl::EndsWith(token, mark);
    });
  };
  const int64_t word_begins =
      count([](absl::string_view token) { return absl::StartsWith(token, kWordBegin); });
  const int64_t joiners = count([](absl::string_view token) {
    return absl::StartsWith(token, kJoiner) || absl::EndsWith(token, kJoiner);
  });
  struct {
    int64_t found;
    v1::SubwordMark mark;
    const char* what;
  } const marks[] = {
      {AreIcefallBytes(tokens) ? word_begins : 0, v1::SUBWORD_MARK_ICEFALL_BYTES,
       "tokens begin with '▁', and all are ASCII or letters of icefall's byte-level BPE: each "
       "character is a byte"},
      // The vocabulary itself says that it has joiners (bundle::HasJoiners).
      {word_begins == 0 && joiners > 1 ? joiners : 0, v1::SUBWORD_MARK_WORD_BEGIN,
       "tokens have OpenNMT's joiner '￭', which takes the place of a space"},
      {word_begins, v1::SUBWORD_MARK_WORD_BEGIN, "tokens begin with '▁', which begins a word"},
      {begins(kGptSpace), v1::SUBWORD_MARK_BYTES,
       "tokens begin with 'Ġ', the space of byte-level BPE: each character is a byte"},
      {ends("</w>"), v1::SUBWORD_MARK_WORD_END, "tokens end with '</w>', which ends a word"},
      {begins("##"), v1::SUBWORD_MARK_CONTINUATION, "tokens begin with '##', which goes on a word"},
      {ends("@@"), v1::SUBWORD_MARK_UNFINISHED, "tokens end with '@@': the word goes on"},
  };
  for (const auto& [found, mark, what] : marks) {
    const int64_t enough = mark == v1::SUBWORD_MARK_WORD_BEGIN ? 1 : 2;
    if (found >= enough) {
      reasons.push_back(absl::StrCat(side, " text is joined from pieces: ", found, " ", what));
      return mark;
    }
  }
  return std::nullopt;
}

}  // namespace beamwright::tools
