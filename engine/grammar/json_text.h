// JSON texts as expressions: values, strings, numbers, in one way to write each. Private to
// engine/grammar/.
#ifndef BEAMWRIGHT_ENGINE_GRAMMAR_JSON_TEXT_H_
#define BEAMWRIGHT_ENGINE_GRAMMAR_JSON_TEXT_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "engine/grammar/expression.h"
#include "ops/base/rapidjson.h"

namespace beamwright::grammar {

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

#endif  // BEAMWRIGHT_ENGINE_GRAMMAR_JSON_TEXT_H_
