// JSON Schema as a grammar: the JSON texts that a schema accepts, in one way to write each value
// (docs/decoding.md, 'Patterns and schemas'). Where a schema admits more than is written, such as
// further properties, the grammar has fewer texts, never others.
#ifndef BEAMWRIGHT_ENGINE_GRAMMAR_JSON_SCHEMA_H_
#define BEAMWRIGHT_ENGINE_GRAMMAR_JSON_SCHEMA_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/grammar/expression.h"

namespace beamwright::grammar {

// InvalidArgument names the place in the schema as a JSON pointer: a keyword that is not served, a
// value of the wrong type, a reference to nowhere; of text that is no JSON, the byte.
absl::StatusOr<Grammar> ReadJsonSchema(absl::string_view schema);

}  // namespace beamwright::grammar

#endif  // BEAMWRIGHT_ENGINE_GRAMMAR_JSON_SCHEMA_H_
