// The regular expressions by which byte-level tokenizers split a text before they merge, such as
// GPT-2's
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// which splits "It's  new" into "It", "'s", " " and " new". A library for such patterns would need
// Unicode classes and look-ahead; the form that the patterns have is small, so this file reads that
// form and refuses any other (Unknown).
//
// 1. Parser, once per tokenizer: a pattern is a list of alternatives; an alternative is a list of
//    parts; a part is a class of characters with a least and a most count, or a class that must not
//    follow, (?!...).
// 2. Split: at each place the first alternative that matches takes its characters, as of a
//    backtracking engine. Characters that no alternative matches join to a piece.
// 3. Match: a part takes as many characters as it may, then gives them back one by one until the
//    rest matches.
//
// Backtracking can take a time that is exponential in the number of parts; the budget of steps
// (kStepsPerCharacter) bounds it, and the rest of the text is one piece once it is used up. The
// classes of Unicode are sorted lists of bounds (unicode_classes.inc), in which a binary search
// finds a character: it is in the class if an odd number of bounds are at or below it.
#include "engine/bundle/split_pattern.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::bundle {
namespace {

// Bounds of runs: the first character of a run, and the first one behind it.
#include "engine/bundle/unicode_classes.inc"

constexpr int64_t kStepsPerCharacter = 512;

enum : uint32_t { kLetter = 1, kMark = 2, kNumber = 4, kSpace = 8 };

template <size_t kSize>
bool IsIn(const uint32_t (&bounds)[kSize], char32_t character) {
  return (std::upper_bound(bounds, bounds + kSize, static_cast<uint32_t>(character)) - bounds) %
             2 ==
         1;
}

// White_Space of Unicode.
bool IsSpace(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsOf(uint32_t classes, char32_t c) {
  return ((classes & kLetter) != 0 && IsIn(kLetters, c)) ||
         ((classes & kMark) != 0 && IsIn(kMarks, c)) ||
         ((classes & kNumber) != 0 && IsIn(kNumbers, c)) || ((classes & kSpace) != 0 && IsSpace(c));
}

// Lower case of ASCII letters, and of the long s, which matches s where the case is ignored.
char32_t WithoutCase(char32_t c) {
  if (c == 0x17F) {
    return 's';
  }
  return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

std::vector<char32_t> Characters(absl::string_view text) {
  std::vector<char32_t> characters;
  while (!text.empty()) {
    char32_t character = 0xFFFD;
    const int size = std::max(Utf8Length(text, &character), 1);
    characters.push_back(character);
    text.remove_prefix(static_cast<size_t>(size));
  }
  return characters;
}

}  // namespace

bool IsMark(char32_t character) { return IsIn(kMarks, character); }

bool SplitPattern::Class::Has(char32_t character) const {
  const char32_t c = ignores_case ? WithoutCase(character) : character;
  const bool found =
      IsOf(classes, c) ||
      std::any_of(ranges.begin(), ranges.end(),
                  [c](const auto& range) { return c >= range.first && c <= range.second; }) ||
      std::any_of(parts.begin(), parts.end(), [c](const Class& part) { return part.Has(c); });
  return found != negated;
}

// One pass from left to right over the pattern's characters.
class SplitPattern::Parser {
 public:
  explicit Parser(absl::string_view pattern) : characters_(Characters(pattern)) {}

  absl::StatusOr<std::vector<Alternative>> Run() {
    std::vector<Alternative> alternatives(1);
    while (!AtEnd()) {
      if (Take('|')) {
        alternatives.emplace_back();
      } else if (alternatives.back().empty() && (TakeWord("(?i:") || TakeWord("(?:"))) {
        BW_RETURN_IF_ERROR(TakeGroup(characters_[at_ - 2] == 'i', alternatives));
      } else {
        BW_ASSIGN_OR_RETURN(Part part, TakePart());
        alternatives.back().push_back(std::move(part));
      }
    }
    for (const Alternative& alternative : alternatives) {
      if (std::all_of(alternative.begin(), alternative.end(),
                      [](const Part& part) { return part.least == 0 || part.must_not_follow; })) {
        return Invalid("an alternative of the pattern matches nothing at all");
      }
    }
    return alternatives;
  }

 private:
  bool AtEnd() const { return at_ >= characters_.size(); }
  bool Take(char32_t character) {
    const bool found = !AtEnd() && characters_[at_] == character;
    at_ += found ? 1 : 0;
    return found;
  }
  bool TakeWord(absl::string_view word) {
    if (characters_.size() - at_ < word.size() ||
        !std::equal(word.begin(), word.end(), characters_.begin() + static_cast<ptrdiff_t>(at_),
                    [](char a, char32_t b) { return static_cast<char32_t>(a) == b; })) {
      return false;
    }
    at_ += word.size();
    return true;
  }
  absl::Status Unknown() const {
    return Invalid("at character ", at_, " of the pattern: this form is not read");
  }

  // A whole alternative: '(?i:a|b)', which counts as the alternatives within it.
  absl::Status TakeGroup(bool ignores_case, std::vector<Alternative>& alternatives) {
    while (!Take(')')) {
      if (AtEnd()) {
        return Unknown();
      }
      if (Take('|')) {
        alternatives.emplace_back();
        continue;
      }
      BW_ASSIGN_OR_RETURN(Part part, TakePart());
      part.of.ignores_case = ignores_case;
      for (auto& [first, last] : part.of.ranges) {
        if (ignores_case && first == last) {
          first = last = WithoutCase(first);
        }
      }
      alternatives.back().push_back(std::move(part));
    }
    return AtEnd() || characters_[at_] == '|' ? absl::OkStatus() : Unknown();
  }

  absl::StatusOr<Part> TakePart() {
    Part part;
    if (TakeWord("(?!")) {
      BW_ASSIGN_OR_RETURN(part.of, TakeClass());
      part.must_not_follow = true;
      return Take(')') ? absl::StatusOr<Part>(std::move(part)) : Unknown();
    }
    BW_ASSIGN_OR_RETURN(part.of, TakeClass());
    constexpr int kEndless = std::numeric_limits<int>::max();
    if (Take('?')) {
      part.least = 0;
    } else if (Take('*')) {
      part.least = 0;
      part.most = kEndless;
    } else if (Take('+')) {
      part.most = kEndless;
    } else if (Take('{')) {
      BW_ASSIGN_OR_RETURN(part.least, TakeNumber());
      part.most = part.least;
      if (Take(',')) {
        part.most = kEndless;
        if (!AtEnd() && characters_[at_] != '}') {
          BW_ASSIGN_OR_RETURN(part.most, TakeNumber());
        }
      }
      if (!Take('}') || part.most < part.least || part.most == 0) {
        return Unknown();
      }
    }
    if (!AtEnd() &&
        (characters_[at_] == '?' || characters_[at_] == '+' || characters_[at_] == '*')) {
      return Unknown();  // lazy and possessive counts
    }
    return part;
  }

  absl::StatusOr<int> TakeNumber() {
    int number = -1;
    while (!AtEnd() && characters_[at_] >= '0' && characters_[at_] <= '9' && number < 1000) {
      number = std::max(number, 0) * 10 + static_cast<int>(characters_[at_++] - '0');
    }
    return number < 0 ? absl::StatusOr<int>(Unknown()) : number;
  }

  absl::StatusOr<Class> TakeClass() {
    if (AtEnd()) {
      return Unknown();
    }
    Class found;
    const char32_t character = characters_[at_];
    if (character == '[') {
      return TakeSet();
    }
    if (character == '\\') {
      ++at_;
      return TakeEscape();
    }
    if (character < 0x80 && absl::StrContains("().*+?{}|^$]", static_cast<char>(character))) {
      return Unknown();
    }
    ++at_;
    found.ranges.emplace_back(character, character);
    return found;
  }

  // Behind \p or \P; 0: a name that is not read.
  uint32_t TakeClassName() {
    if (TakeWord("{L}")) {
      return kLetter;
    }
    if (TakeWord("{M}")) {
      return kMark;
    }
    return TakeWord("{N}") ? uint32_t{kNumber} : 0;
  }

  absl::StatusOr<Class> TakeEscape() {
    Class found;
    if (AtEnd()) {
      return Unknown();
    }
    const char32_t letter = characters_[at_++];
    found.negated = letter == 'S' || letter == 'P';
    if (letter == 's' || letter == 'S') {
      found.classes = kSpace;
    } else if (letter == 'p' || letter == 'P') {
      found.classes = TakeClassName();
      if (found.classes == 0) {
        return Unknown();
      }
    } else if (letter == 'r' || letter == 'n' || letter == 't') {
      const char32_t control = letter == 'r' ? '\r' : letter == 'n' ? '\n' : '\t';
      found.ranges.emplace_back(control, control);
    } else if (letter < 0x80 && !absl::ascii_isalnum(static_cast<unsigned char>(letter))) {
      found.ranges.emplace_back(letter, letter);
    } else {
      return Unknown();
    }
    return found;
  }

  absl::StatusOr<Class> TakeSet() {
    ++at_;
    Class found;
    found.negated = Take('^');
    while (!Take(']')) {
      if (AtEnd() || characters_[at_] == '[' || characters_[at_] == '&') {
        return Unknown();
      }
      if (Take('\\')) {
        BW_ASSIGN_OR_RETURN(Class part, TakeEscape());
        found.parts.push_back(std::move(part));
        continue;
      }
      const char32_t first = characters_[at_++];
      char32_t last = first;
      if (at_ + 1 < characters_.size() && characters_[at_] == '-' && characters_[at_ + 1] != ']') {
        last = characters_[at_ + 1];
        at_ += 2;
        if (last == '\\' || last < first) {
          return Unknown();
        }
      }
      found.ranges.emplace_back(first, last);
    }
    return found;
  }

  const std::vector<char32_t> characters_;
  size_t at_ = 0;
};

absl::StatusOr<SplitPattern> SplitPattern::Parse(absl::string_view pattern) {
  SplitPattern parsed;
  BW_ASSIGN_OR_RETURN(parsed.alternatives_, Parser(pattern).Run());
  return parsed;
}

int SplitPattern::Match(const Alternative& alternative, size_t part,
                        const std::vector<char32_t>& characters, size_t at, int64_t& budget) {
  if (part == alternative.size()) {
    return 0;
  }
  const Part& here = alternative[part];
  if (here.must_not_follow) {
    const bool follows = at < characters.size() && here.of.Has(characters[at]);
    return follows ? -1 : Match(alternative, part + 1, characters, at, budget);
  }
  int count = 0;
  while (count < here.most && at + static_cast<size_t>(count) < characters.size() &&
         --budget >= 0 && here.of.Has(characters[at + static_cast<size_t>(count)])) {
    ++count;
  }
  for (; count >= here.least && --budget >= 0; --count) {
    const int rest =
        Match(alternative, part + 1, characters, at + static_cast<size_t>(count), budget);
    if (rest >= 0) {
      return count + rest;
    }
  }
  return -1;
}

std::vector<absl::string_view> SplitPattern::Split(absl::string_view text) const {
  const std::vector<char32_t> characters = Characters(text);
  std::vector<absl::string_view> pieces;
  size_t between = 0;  // bytes that no match took yet
  const auto size_of = [&](size_t begin, int count) {
    size_t size = 0;
    for (int i = 0; i < count; ++i) {
      size += static_cast<size_t>(std::max(Utf8Length(text.substr(begin + size)), 1));
    }
    return size;
  };
  int64_t budget = kStepsPerCharacter * (static_cast<int64_t>(characters.size()) + 64);
  size_t offset = 0;
  for (size_t at = 0; at < characters.size();) {
    int count = -1;
    for (size_t i = 0; i < alternatives_.size() && count < 1; ++i) {
      count = Match(alternatives_[i], 0, characters, at, budget);
    }
    if (budget < 0) {
      between += text.size() - offset;
      offset = text.size();
      break;
    }
    const size_t bytes = size_of(offset, std::max(count, 1));
    if (count < 1) {
      between += bytes;
    } else {
      if (between > 0) {
        pieces.push_back(text.substr(offset - between, between));
        between = 0;
      }
      pieces.push_back(text.substr(offset, bytes));
    }
    offset += bytes;
    at += static_cast<size_t>(std::max(count, 1));
  }
  if (between > 0) {
    pieces.push_back(text.substr(offset - between, between));
  }
  return pieces;
}

}  // namespace beamwright::bundle
