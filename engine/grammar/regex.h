// Regular expressions as expressions. docs/decoding.md, 'Patterns and schemas', says what is
// served: what Python's re, RE2 and ECMAScript agree on.
#ifndef BEAMWRIGHT_ENGINE_GRAMMAR_REGEX_H_
#define BEAMWRIGHT_ENGINE_GRAMMAR_REGEX_H_

#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/grammar/expression.h"

namespace beamwright::grammar {

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

}  // namespace beamwright::grammar

#endif  // BEAMWRIGHT_ENGINE_GRAMMAR_REGEX_H_
