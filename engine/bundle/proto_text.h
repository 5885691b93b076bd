// Messages as text: protobuf's text form, as people write it into files, and what protobuf's JSON
// reader does not do itself.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_PROTO_TEXT_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_PROTO_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace beamwright::bundle {

// Messages in protobuf's text form, as people write them into files.

// InvalidArgument: all syntax errors with line and column ("12:5: ..."), or text that is not UTF-8.
// Rules of fields are not looked at (rules.h does that).
absl::Status ParseTextProto(const std::string& text, google::protobuf::Message& message);

// What protobuf's JSON reader does not do itself. Before it reads a text of a caller: bounds, since
// its time grows with the square of the depth and its memory is many times the text's, and commas
// behind the last element, which it takes. After it: what it takes in silence though the result is
// not what was written. It drops null from lists, flattens lists in lists, and joins members of the
// same name. Both are one pass over the text, in time linear in its length.

inline constexpr size_t kMaxJsonDepth = 64;
inline constexpr int64_t kMaxJsonContainers = int64_t{1} << 17;  // objects and lists
inline constexpr int64_t kMaxJsonScalars = int64_t{1} << 20;     // all else, names of members too

// For a text that is about to be read, JSON or not. InvalidArgument if it is nested too deep, has
// too many values, or has a comma where a value must be. max_scalars: a Struct, the message for any
// JSON, takes some 200 bytes for each.
absl::Status CheckJsonBounds(absl::string_view json, int64_t max_scalars = kMaxJsonScalars);

// For JSON that the reader has taken; for other text the result means nothing. InvalidArgument
// names the place: "sources[1].ids.ids[0]: is null; ...".
absl::Status CheckStrictJson(absl::string_view json);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_PROTO_TEXT_H_
