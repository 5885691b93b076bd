// Expressions: sets of texts, as trees, and JSON texts among them.
#ifndef BEAMWRIGHT_ENGINE_GRAMMAR_EXPRESSION_H_
#define BEAMWRIGHT_ENGINE_GRAMMAR_EXPRESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/base/rapidjson.h"

namespace beamwright::grammar {

// Expressions: sets of texts, as trees. The readers of patterns (ReadRegex) and schemas
// (ReadJsonSchema) build them; Program (program.h) makes an automaton of them.

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

// Regular expressions as expressions. docs/decoding.md, 'Patterns and schemas', says what is
// served: what Python's re, RE2 and ECMAScript agree on.

// What stands for one character of a set: SetOf, or how it is written where it is quoted.
using CharacterWriter = std::function<Part(const CodeSet&)>;

struct RegexOptions {
  CharacterWriter write = [](const CodeSet& set) { return SetOf(set); };
  // True: the texts that contain a match ('^' and '$' hold it to the borders). False: those that
  // match as a whole.
  bool searches = false;
};

// InvalidArgument names the position, in characters from 0.
absl::StatusOr<Part> ReadRegex(absl::string_view pattern, const RegexOptions& options = {});

// JSON Schema as a grammar: the JSON texts that a schema accepts, in one way to write each value
// (docs/decoding.md, 'Patterns and schemas'). Where a schema admits more than is written, such as
// further properties, the grammar has fewer texts, never others.

// InvalidArgument names the place in the schema as a JSON pointer: a keyword that is not served, a
// value of the wrong type, a reference to nowhere; of text that is no JSON, the byte.
absl::StatusOr<Grammar> ReadJsonSchema(absl::string_view schema);

}  // namespace beamwright::grammar

#endif  // BEAMWRIGHT_ENGINE_GRAMMAR_EXPRESSION_H_
