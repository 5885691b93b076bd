// Expressions: sets of texts, as trees, and JSON texts among them.
#ifndef BEAMWRIGHT_ENGINE_GRAMMAR_EXPRESSION_H_
#define BEAMWRIGHT_ENGINE_GRAMMAR_EXPRESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "ops/base/rapidjson.h"

namespace beamwright::grammar {

// Expressions: sets of texts, as trees. The readers of patterns (regex.h) and schemas
// (json_schema.h) build them; Program (program.h) makes an automaton of them.

// A range of code points, both inclusive.
struct CodeRange {
  char32_t low = 0;
  char32_t high = 0;
};
// Ascending, disjoint and not adjacent.
using CodeSet = std::vector<CodeRange>;

inline constexpr char32_t kMaxCode = 0x10FFFF;

CodeSet Normalised(CodeSet set);
CodeSet Complement(const CodeSet& set);  // of a normalised set
CodeSet Intersection(const CodeSet& a, const CodeSet& b);

struct Expression;
// Shared: a part may stand at several places of a tree.
using Part = std::shared_ptr<const Expression>;

struct Expression {
  enum class Kind : uint8_t {
    kSet,        // one character of `set`; no text at all if the set is empty
    kConcat,     // all of `parts` in order; without parts the empty text
    kAlternate,  // one of `parts`; without parts no text at all
    kRepeat,     // parts[0], `least` to `most` times
    kRule,       // rule number `rule`, which may contain itself
  };
  static constexpr int kUnbounded = -1;

  Kind kind = Kind::kConcat;
  CodeSet set;
  std::vector<Part> parts;
  int least = 0;
  int most = kUnbounded;
  int rule = 0;
};

Part SetOf(CodeSet set);
Part Concat(std::vector<Part> parts);
Part Alternate(std::vector<Part> parts);
Part Repeat(Part part, int least, int most);
Part Optional(Part part);
Part RuleRef(int rule);
// The text itself, which is UTF-8.
Part Literal(absl::string_view text);
Part EmptyText();

// A grammar: the texts of rules[0]. Other rules are what kRule refers to.
struct Grammar {
  std::vector<Part> rules;
};

// JSON texts as expressions: values, strings, numbers, in one way to write each.

// A character as it is written in a string: the quote, the backslash and control characters are
// escaped, all others are not.
Part JsonCharacter(const CodeSet& set);
Part JsonString(Part characters);  // in quotes
Part AnyJsonString();
Part JsonNumber();
// Within these bounds, both inclusive; at most 18 digits.
Part JsonInteger(std::optional<int64_t> least, std::optional<int64_t> most);
// This very value.
Part JsonConstant(const rapidjson::Value& value);
// Any value; `itself`: a reference to the rule that this becomes.
Part AnyJson(const Part& itself);

// "," or ":" with at most one space behind it.
Part JsonSeparator(absl::string_view mark);
Part JsonMember(Part name, Part value);
// open (one (, one)*)? close, with `least` to `most` (Expression::kUnbounded) of them.
Part JsonList(absl::string_view open, const Part& one, int least, int most,
              absl::string_view close);

}  // namespace beamwright::grammar

#endif  // BEAMWRIGHT_ENGINE_GRAMMAR_EXPRESSION_H_
