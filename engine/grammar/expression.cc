// Expressions of grammars: the constructors of their tree, operations on sets of code points, and
// the expressions of JSON. A set is a sorted list of ranges without overlap; an intersection is the
// complement of the complements' union. Parts are shared and immutable, so a part that is used in
// several places is one object.
#include "engine/grammar/expression.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ops/base/utf8.h"

namespace beamwright::grammar {
namespace {

Part Make(Expression expression) {
  return std::make_shared<const Expression>(std::move(expression));
}

bool IsEmptyText(const Part& part) {
  return part->kind == Expression::Kind::kConcat && part->parts.empty();
}

// One part for each character of ASCII: patterns and texts consist of tens of thousands of them.
const std::vector<Part>& PartsOfAscii() {
  static const auto& parts = *[] {
    auto* const made = new std::vector<Part>();
    for (char32_t code = 0; code < 0x80; ++code) {
      Expression one;
      one.kind = Expression::Kind::kSet;
      one.set = {{code, code}};
      made->push_back(Make(std::move(one)));
    }
    return made;
  }();
  return parts;
}

}  // namespace

CodeSet Normalised(CodeSet set) {
  std::sort(set.begin(), set.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.low < b.low; });
  CodeSet result;
  for (const CodeRange& range : set) {
    if (!result.empty() && range.low <= result.back().high + 1) {
      result.back().high = std::max(result.back().high, range.high);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

CodeSet Complement(const CodeSet& set) {
  CodeSet result;
  char32_t next = 0;
  for (const CodeRange& range : set) {
    if (range.low > next) {
      result.push_back({next, range.low - 1});
    }
    next = range.high + 1;
  }
  if (next <= kMaxCode) {
    result.push_back({next, kMaxCode});
  }
  return result;
}

CodeSet Intersection(const CodeSet& a, const CodeSet& b) {
  CodeSet both = Complement(a);
  const CodeSet other = Complement(b);
  both.insert(both.end(), other.begin(), other.end());
  return Complement(Normalised(std::move(both)));
}

Part SetOf(CodeSet set) {
  if (set.size() == 1 && set[0].low == set[0].high && set[0].low < 0x80) {
    return PartsOfAscii()[set[0].low];
  }
  Expression made;
  made.kind = Expression::Kind::kSet;
  made.set = Normalised(std::move(set));
  return Make(std::move(made));
}

// Without empty texts: then all but the empty text itself needs instructions, and what is written
// twice at each of many levels comes to their limit.
Part Concat(std::vector<Part> parts) {
  parts.erase(std::remove_if(parts.begin(), parts.end(), IsEmptyText), parts.end());
  if (parts.size() == 1) {
    return std::move(parts[0]);
  }
  Expression made;
  made.parts = std::move(parts);
  return Make(std::move(made));
}

Part Alternate(std::vector<Part> parts) {
  if (parts.size() == 1) {
    return std::move(parts[0]);
  }
  Expression made;
  made.kind = Expression::Kind::kAlternate;
  made.parts = std::move(parts);
  return Make(std::move(made));
}

Part Repeat(Part part, int least, int most) {
  if (IsEmptyText(part) || most == 0) {
    return EmptyText();
  }
  Expression made;
  made.kind = Expression::Kind::kRepeat;
  made.parts.push_back(std::move(part));
  made.least = least;
  made.most = most;
  return Make(std::move(made));
}

Part Optional(Part part) { return Repeat(std::move(part), 0, 1); }

Part RuleRef(int rule) {
  Expression made;
  made.kind = Expression::Kind::kRule;
  made.rule = rule;
  return Make(std::move(made));
}

Part Literal(absl::string_view text) {
  std::vector<Part> parts;
  while (!text.empty()) {
    char32_t code = 0;
    const int length = std::max(1, Utf8Length(text, &code));
    parts.push_back(SetOf({{code, code}}));
    text.remove_prefix(static_cast<size_t>(length));
  }
  return Concat(std::move(parts));
}

Part EmptyText() { return Make({}); }

// Expressions of JSON texts, from which json_schema.cc builds grammars: strings, numbers,
// constants, lists and objects. After a comma or colon one space is allowed (JsonSeparator), no
// other white space, so that a model cannot spend its answer on blanks.
//
// JsonInteger writes the integers of a range as digits. Example, 7 to 23: [7-9] | 1[0-9] | 2[0-3].
// Natural goes through the numbers of digits; Between shares the leading digits that are equal;
// Bounded continues after a digit that is equal to that of a bound: smaller (or larger) digits
// leave the rest free.
//
// JsonCharacter writes a set of characters as JSON does, with escapes for quotes, backslashes and
// control characters.

namespace {

Part Digit(char low, char high) {
  return SetOf({{static_cast<char32_t>(low), static_cast<char32_t>(high)}});
}
Part DigitsOf(size_t count) {
  const auto times = static_cast<int>(count);
  return Repeat(Digit('0', '9'), times, times);
}

// The rest of a number after leading digits that are equal to those of a bound: at least, or at
// most, the bound's rest.
Part Bounded(absl::string_view bound, bool is_least) {
  if (bound.empty()) {
    return EmptyText();
  }
  std::vector<Part> ways = {
      Concat({Digit(bound[0], bound[0]), Bounded(bound.substr(1), is_least)})};
  const char low = is_least ? static_cast<char>(bound[0] + 1) : '0';
  const char high = is_least ? '9' : static_cast<char>(bound[0] - 1);
  if (low <= high) {
    ways.push_back(Concat({Digit(low, high), DigitsOf(bound.size() - 1)}));
  }
  return Alternate(std::move(ways));
}

// The numbers between two of as many digits.
Part Between(absl::string_view least, absl::string_view most) {
  if (least.empty()) {
    return EmptyText();
  }
  if (least[0] == most[0]) {
    return Concat({Digit(least[0], least[0]), Between(least.substr(1), most.substr(1))});
  }
  std::vector<Part> ways = {
      Concat({Digit(least[0], least[0]), Bounded(least.substr(1), /*is_least=*/true)}),
      Concat({Digit(most[0], most[0]), Bounded(most.substr(1), /*is_least=*/false)})};
  if (least[0] + 1 < most[0]) {
    ways.push_back(Concat({Digit(static_cast<char>(least[0] + 1), static_cast<char>(most[0] - 1)),
                           DigitsOf(least.size() - 1)}));
  }
  return Alternate(std::move(ways));
}

// Integers from `least` (0 or more) to `most`, without leading zeros.
Part Natural(int64_t least, std::optional<int64_t> most) {
  std::vector<Part> ways;
  const std::string low = absl::StrCat(least);
  const std::string high = most.has_value() ? absl::StrCat(*most) : "";
  const size_t longest = most.has_value() ? high.size() : low.size();
  for (size_t size = low.size(); size <= longest; ++size) {
    const std::string first = size == 1 ? "0" : absl::StrCat("1", std::string(size - 1, '0'));
    ways.push_back(Between(size == low.size() ? low : first,
                           size == high.size() ? high : std::string(size, '9')));
  }
  if (!most.has_value()) {
    ways.push_back(Concat({Digit('1', '9'), Repeat(Digit('0', '9'), static_cast<int>(low.size()),
                                                   Expression::kUnbounded)}));
  }
  return Alternate(std::move(ways));
}

// The escapes, made once: a pattern may have tens of thousands of sets.
const std::vector<std::pair<char32_t, Part>>& EscapedCharacters() {
  static const auto& made = *[] {
    auto* const escapes = new std::vector<std::pair<char32_t, Part>>{
        {'"', Literal("\\\"")}, {'\\', Literal("\\\\")}, {'\b', Literal("\\b")},
        {'\f', Literal("\\f")}, {'\n', Literal("\\n")},  {'\r', Literal("\\r")},
        {'\t', Literal("\\t")}};
    for (char32_t code = 0; code < 0x20; ++code) {
      const bool is_short = std::any_of(escapes->begin(), escapes->end(),
                                        [code](const auto& one) { return one.first == code; });
      if (!is_short) {
        escapes->emplace_back(code,
                              Literal(absl::StrFormat("\\u%04x", static_cast<unsigned>(code))));
      }
    }
    return escapes;
  }();
  return made;
}

}  // namespace

Part JsonCharacter(const CodeSet& set) {
  static const auto& plain =
      *new CodeSet{{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, kMaxCode}};
  static const auto& escapes = EscapedCharacters();
  std::vector<Part> ways;
  if (CodeSet some = Intersection(set, plain); !some.empty()) {
    ways.push_back(SetOf(std::move(some)));
  }
  for (const auto& [code, escape] : escapes) {
    const char32_t wanted = code;
    if (std::any_of(set.begin(), set.end(), [wanted](const CodeRange& range) {
          return range.low <= wanted && wanted <= range.high;
        })) {
      ways.push_back(escape);
    }
  }
  return Alternate(std::move(ways));
}

Part JsonString(Part characters) {
  return Concat({Literal("\""), std::move(characters), Literal("\"")});
}

Part AnyJsonString() {
  return JsonString(Repeat(JsonCharacter({{0, kMaxCode}}), 0, Expression::kUnbounded));
}

Part JsonNumber() {
  const Part digits = Repeat(Digit('0', '9'), 1, Expression::kUnbounded);
  const Part sign = Optional(SetOf({{'+', '+'}, {'-', '-'}}));
  return Concat({Optional(Literal("-")), Natural(0, std::nullopt),
                 Optional(Concat({Literal("."), digits})),
                 Optional(Concat({SetOf({{'E', 'E'}, {'e', 'e'}}), sign, digits}))});
}

Part JsonInteger(std::optional<int64_t> least, std::optional<int64_t> most) {
  std::vector<Part> ways;
  if (!most.has_value() || *most >= 0) {
    ways.push_back(Natural(std::max(least.value_or(0), int64_t{0}), most));
  }
  if (!least.has_value() || *least < 0) {
    const int64_t nearest = most.has_value() ? std::max(-*most, int64_t{1}) : 1;
    const std::optional<int64_t> farthest =
        least.has_value() ? std::optional<int64_t>(-*least) : std::nullopt;
    ways.push_back(Concat({Literal("-"), Natural(nearest, farthest)}));
  }
  return Alternate(std::move(ways));
}

Part JsonConstant(const rapidjson::Value& value) {
  if (value.IsArray() || value.IsObject()) {
    std::vector<Part> parts;
    const auto add = [&](Part part) {
      if (!parts.empty()) {
        parts.push_back(JsonSeparator(","));
      }
      parts.push_back(std::move(part));
    };
    if (value.IsArray()) {
      for (const rapidjson::Value& one : value.GetArray()) {
        add(JsonConstant(one));
      }
    } else {
      for (const auto& member : value.GetObject()) {
        add(JsonMember(JsonConstant(member.name), JsonConstant(member.value)));
      }
    }
    return Concat({Literal(value.IsArray() ? "[" : "{"), Concat(std::move(parts)),
                   Literal(value.IsArray() ? "]" : "}")});
  }
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value.Accept(writer);
  return Literal({buffer.GetString(), buffer.GetSize()});
}

// itself: a reference to the rule that this becomes, for values in lists and objects.
Part AnyJson(const Part& itself) {
  constexpr int kAny = Expression::kUnbounded;
  return Alternate({AnyJsonString(), JsonNumber(), Literal("true"), Literal("false"),
                    Literal("null"), JsonList("[", itself, 0, kAny, "]"),
                    JsonList("{", JsonMember(AnyJsonString(), itself), 0, kAny, "}")});
}

Part JsonSeparator(absl::string_view mark) {
  return Concat({Literal(mark), Optional(Literal(" "))});
}

Part JsonMember(Part name, Part value) {
  return Concat({std::move(name), JsonSeparator(":"), std::move(value)});
}

Part JsonList(absl::string_view open, const Part& one, int least, int most,
              absl::string_view close) {
  const Part further = Concat({JsonSeparator(","), one});
  const int rest = most == Expression::kUnbounded ? most : most - 1;
  Part some =
      most == 0 ? EmptyText() : Concat({one, Repeat(further, std::max(least - 1, 0), rest)});
  return Concat(
      {Literal(open), least == 0 ? Optional(std::move(some)) : std::move(some), Literal(close)});
}

}  // namespace beamwright::grammar
