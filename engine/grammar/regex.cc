// Reads a regular expression into an expression of the grammar, by recursive descent over the
// pattern's characters:
//
// 1. Run: alternatives separated by '|'. ReadTopAlternative reads one with its anchors: a pattern
//    of a schema is searched for in the text (options.searches), so without '^' and '$' any text
//    may come before and after.
// 2. ReadSequence: pieces, one after another, up to '|', ')', '$' or the end.
// 3. ReadAtom and ReadQuantifier: a piece is an atom (a character, '.', an escape, a class in
//    brackets, a group) with an optional quantifier: * + ? {n} {n,} {n,m}.
//
// Example: "[a-c]x?" becomes Concat(characters a to c, Repeat(x, 0, 1)).
//
// options.write makes the expression of a set of characters: for a string of JSON it writes the
// characters as JSON escapes them. What a finite automaton cannot say, or what would need to look
// at other text (look-ahead, references to groups, word borders), is an error with its position.
// Lazy quantifiers admit the same texts as greedy ones and are read as these.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/grammar/expression.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::grammar {
namespace {

constexpr int kMostGroups = 100;       // groups
constexpr int kMostRepeats = 1 << 15;  // in braces

const CodeSet& Digits() {
  static const auto& set = *new CodeSet{{'0', '9'}};
  return set;
}
const CodeSet& WordCharacters() {
  static const auto& set = *new CodeSet{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}
const CodeSet& Spaces() {
  static const auto& set = *new CodeSet{{'\t', '\r'}, {' ', ' '}};
  return set;
}

class RegexReader {
 public:
  RegexReader(std::vector<char32_t> pattern, const RegexOptions& options)
      : pattern_(std::move(pattern)), options_(options) {}

  absl::StatusOr<Part> Run() {
    std::vector<Part> alternatives;
    do {
      BW_ASSIGN_OR_RETURN(Part one, ReadTopAlternative());
      alternatives.push_back(std::move(one));
    } while (Take('|'));
    if (!AtEnd()) {
      return Fault(at_, "')' closes no group");
    }
    return Alternate(std::move(alternatives));
  }

 private:
  bool AtEnd() const { return at_ == pattern_.size(); }
  bool Sees(char32_t code, size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() && pattern_[at_ + ahead] == code;
  }
  bool Take(char32_t code) {
    const bool sees = Sees(code);
    at_ += sees ? 1 : 0;
    return sees;
  }

  static absl::Status Fault(size_t at, absl::string_view what) {
    return Invalid("at position ", at, ": ", what);
  }

  // An alternative of the whole pattern, with the anchors that hold it to the borders of the text.
  absl::StatusOr<Part> ReadTopAlternative() {
    std::vector<Part> parts;
    const bool from_begin = Take('^');
    if (options_.searches && !from_begin) {
      parts.push_back(Repeat(options_.write({{0, kMaxCode}}), 0, Expression::kUnbounded));
    }
    BW_ASSIGN_OR_RETURN(Part middle, ReadSequence());
    parts.push_back(std::move(middle));
    const bool to_end = Take('$');
    if (to_end && !AtEnd() && !Sees('|') && !Sees(')')) {
      return Fault(at_ - 1,
                   "'$' is served at the end of the pattern or of one of its alternatives");
    }
    if (options_.searches && !to_end) {
      parts.push_back(Repeat(options_.write({{0, kMaxCode}}), 0, Expression::kUnbounded));
    }
    return Concat(std::move(parts));
  }

  absl::StatusOr<Part> ReadAlternatives() {
    std::vector<Part> alternatives;
    do {
      BW_ASSIGN_OR_RETURN(Part one, ReadSequence());
      alternatives.push_back(std::move(one));
      if (Sees('$')) {
        return Fault(at_, "'$' is served at the end of the pattern or of one of its alternatives");
      }
    } while (Take('|'));
    return Alternate(std::move(alternatives));
  }

  // To '|', ')', '$' or the end.
  absl::StatusOr<Part> ReadSequence() {
    std::vector<Part> parts;
    while (!AtEnd() && !Sees('|') && !Sees(')') && !Sees('$')) {
      BW_ASSIGN_OR_RETURN(Part atom, ReadAtom());
      BW_ASSIGN_OR_RETURN(Part piece, ReadQuantifier(std::move(atom)));
      parts.push_back(std::move(piece));
    }
    return Concat(std::move(parts));
  }

  // One character of the pattern decides what begins here. A brace is a character where no bounds
  // follow it.
  absl::StatusOr<Part> ReadAtom() {
    const size_t begin = at_;
    const char32_t code = pattern_[at_++];
    switch (code) {
      case '(':
        return ReadGroup(begin);
      case '[':
        return ReadClass(begin);
      case '.':
        if (any_ == nullptr) {
          // ECMAScript, whose patterns schemas have, knows more ends of lines.
          any_ = options_.write(
              Complement(options_.searches ? CodeSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}
                                           : CodeSet{{'\n', '\n'}}));
        }
        return any_;
      case '\\': {
        BW_ASSIGN_OR_RETURN(const CodeSet set, ReadEscape(begin));
        return options_.write(set);
      }
      case '^':
        return Fault(begin,
                     "'^' is served at the beginning of the pattern or of one of its alternatives");
      case '*':
      case '+':
      case '?':
        return Fault(begin, "there is nothing to repeat");
      default:
        --at_;
        if (code == '{' && TakeBounds().has_value()) {
          return Fault(begin, "there is nothing to repeat");
        }
        ++at_;
        return options_.write({{code, code}});
    }
  }

  // Groups only order alternatives: names are passed over, and whatever looks at text outside of
  // the group is refused.
  absl::StatusOr<Part> ReadGroup(size_t begin) {
    if (Take('?')) {
      if (Sees('<') && (Sees('=', 1) || Sees('!', 1))) {
        return Fault(begin, "text behind is not looked at: '(?<=' and '(?<!' are not served");
      }
      if (Sees('=') || Sees('!')) {
        return Fault(begin, "text ahead is not looked at: '(?=' and '(?!' are not served");
      }
      const bool is_named = (Sees('P') && Sees('<', 1)) || Sees('<');
      if (is_named) {
        while (!AtEnd() && pattern_[at_] != '>') {
          ++at_;
        }
        if (AtEnd()) {
          return Fault(begin, "the group's name has no end");
        }
        ++at_;
      } else if (!Take(':')) {
        return Fault(begin, "flags, conditions and references of groups are not served");
      }
    }
    if (++depth_ > kMostGroups) {
      return Fault(begin, absl::StrCat("groups nest deeper than ", kMostGroups));
    }
    BW_ASSIGN_OR_RETURN(Part inner, ReadAlternatives());
    --depth_;
    if (AtEnd()) {
      return Fault(begin, "the group is not closed");
    }
    ++at_;  // ')'
    return inner;
  }

  // The characters that an escape stands for; the backslash has been read.
  absl::StatusOr<CodeSet> ReadEscape(size_t begin) {
    if (AtEnd()) {
      return Fault(begin, "nothing follows the backslash");
    }
    const char32_t code = pattern_[at_++];
    const auto one = [](char32_t character) { return CodeSet{{character, character}}; };
    switch (code) {
      case 'd':
        return Digits();
      case 'D':
        return Complement(Digits());
      case 'w':
        return WordCharacters();
      case 'W':
        return Complement(WordCharacters());
      case 's':
        return Spaces();
      case 'S':
        return Complement(Spaces());
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'x':
        return ReadHex(begin, 2);
      case 'u':
        return ReadHex(begin, 4);
      default:
        break;
    }
    if (code < 0x80 && !absl::ascii_isalnum(static_cast<unsigned char>(code))) {
      return one(code);
    }
    return Fault(begin, code >= 'A' ? "this escape is not served"
                                    : "references to groups and octal numbers are not served");
  }

  // \xHH, \uHHHH; in braces any number of digits up to 8.
  absl::StatusOr<CodeSet> ReadHex(size_t begin, size_t digits) {
    const bool braces = Take('{');
    char32_t code = 0;
    size_t count = 0;
    while (count < (braces ? 8 : digits) && !AtEnd() && pattern_[at_] < 0x80 &&
           absl::ascii_isxdigit(static_cast<unsigned char>(pattern_[at_]))) {
      const char32_t digit = pattern_[at_++];
      code = code * 16 + (digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
      ++count;
    }
    if ((braces ? count == 0 || !Take('}') : count != digits) || code > kMaxCode ||
        (code >= 0xD800 && code <= 0xDFFF)) {
      return Fault(begin, "this is the number of no character");
    }
    return CodeSet{{code, code}};
  }

  // Members and ranges up to ']'. A '-' at the end is a character, and a range has one character on
  // both sides.
  absl::StatusOr<Part> ReadClass(size_t begin) {
    const bool is_negated = Take('^');
    CodeSet set;
    if (Sees(']')) {
      return Fault(at_, "a class is not empty; a ']' in it is written '\\]'");
    }
    while (!Sees(']')) {
      if (AtEnd()) {
        return Fault(begin, "the class is not closed");
      }
      const size_t first = at_;
      BW_ASSIGN_OR_RETURN(const CodeSet low, ReadMember());
      if (!Sees('-') || Sees(']', 1)) {
        set.insert(set.end(), low.begin(), low.end());
        continue;
      }
      ++at_;
      if (AtEnd()) {
        return Fault(begin, "the class is not closed");
      }
      BW_ASSIGN_OR_RETURN(const CodeSet high, ReadMember());
      const auto is_one = [](const CodeSet& of) {
        return of.size() == 1 && of[0].low == of[0].high;
      };
      if (!is_one(low) || !is_one(high) || low[0].low > high[0].low) {
        return Fault(first, "this is no range of characters");
      }
      set.push_back({low[0].low, high[0].low});
    }
    ++at_;  // ']'
    set = Normalised(std::move(set));
    return options_.write(is_negated ? Complement(set) : set);
  }

  // A character of a class, or an escape, which may be many.
  absl::StatusOr<CodeSet> ReadMember() {
    const size_t begin = at_;
    const char32_t code = pattern_[at_++];
    if (code == '[' && (Sees(':') || Sees('.') || Sees('='))) {
      return Fault(begin, "classes by name are not served");
    }
    if (code == '\\') {
      if (Sees('b')) {
        return Fault(begin, "this escape is not served");
      }
      return ReadEscape(begin);
    }
    return CodeSet{{code, code}};
  }

  // Reads {n}, {n,} or {n,m}. Anything else: no value, and nothing is read; the brace is a
  // character.
  std::optional<std::pair<int, int>> TakeBounds() {
    size_t at = at_ + 1;
    const auto number = [&]() -> std::optional<int> {
      int value = 0;
      const size_t begin = at;
      for (; at < pattern_.size() && pattern_[at] >= '0' && pattern_[at] <= '9'; ++at) {
        value = std::min(value * 10 + static_cast<int>(pattern_[at] - '0'), kMostRepeats + 1);
      }
      return at == begin ? std::nullopt : std::optional<int>(value);
    };
    const std::optional<int> least = number();
    if (!least.has_value()) {
      return std::nullopt;
    }
    int most = *least;
    if (at < pattern_.size() && pattern_[at] == ',') {
      ++at;
      most = number().value_or(Expression::kUnbounded);
    }
    if (at == pattern_.size() || pattern_[at] != '}') {
      return std::nullopt;
    }
    at_ = at + 1;
    return std::make_pair(*least, most);
  }

  // How often the atom is repeated; once without a quantifier. Repetitions in braces are bounded,
  // since each is a copy of the atom.
  absl::StatusOr<Part> ReadQuantifier(Part atom) {
    const size_t begin = at_;
    std::pair<int, int> bounds = {1, 1};
    if (Take('*')) {
      bounds = {0, Expression::kUnbounded};
    } else if (Take('+')) {
      bounds = {1, Expression::kUnbounded};
    } else if (Take('?')) {
      bounds = {0, 1};
    } else if (Sees('{')) {
      const auto taken = TakeBounds();
      if (!taken.has_value()) {
        return atom;  // the brace is a character
      }
      bounds = *taken;
    } else {
      return atom;
    }
    const bool has_end = bounds.second != Expression::kUnbounded;
    if (bounds.first > kMostRepeats || bounds.second > kMostRepeats) {
      return Fault(begin, absl::StrCat("more than ", kMostRepeats, " repetitions"));
    }
    if (has_end && bounds.first > bounds.second) {
      return Fault(begin, "the least number of repetitions is above the most");
    }
    Take('?');  // as few as possible: the same texts
    if (Sees('*') || Sees('+') || Sees('?')) {
      return Fault(at_, "one quantifier follows another");
    }
    if (Sees('{')) {
      const size_t second = at_;
      if (TakeBounds().has_value()) {
        return Fault(second, "one quantifier follows another");
      }
    }
    return Repeat(std::move(atom), bounds.first, bounds.second);
  }

  const std::vector<char32_t> pattern_;
  const RegexOptions& options_;
  size_t at_ = 0;
  int depth_ = 0;
  Part any_;  // of '.', which patterns have many of
};

}  // namespace

absl::StatusOr<Part> ReadRegex(absl::string_view pattern, const RegexOptions& options) {
  std::vector<char32_t> codes;
  while (!pattern.empty()) {
    char32_t code = 0;
    const int length = Utf8Length(pattern, &code);
    if (length == 0) {
      return Invalid("at position ", codes.size(), ": this is not UTF-8");
    }
    codes.push_back(code);
    pattern.remove_prefix(static_cast<size_t>(length));
  }
  return RegexReader(std::move(codes), options).Run();
}

}  // namespace beamwright::grammar
