// Messages as text: protobuf's text form, as people write it into files, and what protobuf's JSON
// reader does not do itself.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_PROTO_TEXT_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_PROTO_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
#include "google/protobuf/message.h"
#include "google/protobuf/struct.pb.h"

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

// The same of a text that comes in pieces.
class JsonBounds {
 public:
  explicit JsonBounds(int64_t max_scalars = kMaxJsonScalars) : max_scalars_(max_scalars) {}

  // Counts the next piece. After an error no other may follow.
  absl::Status Add(absl::string_view piece);
  // Scalars and containers so far.
  int64_t num_values() const { return num_scalars_ + num_containers_; }

 private:
  enum class Place { kBetween, kWord, kString, kEscape };

  enum class Fault { kNone, kContainers, kScalars, kDepth, kBracket, kComma };

  // c: the next byte, between tokens.
  Fault Begin(char c);
  // at: of the fault's byte in the text.
  absl::Status StatusOf(Fault fault, size_t at) const;

  int64_t max_scalars_;
  Place place_ = Place::kBetween;  // of the next byte
  char quote_ = '"';               // of the string
  bool needs_value_ = false;       // a comma was read last
  size_t depth_ = 0;
  size_t num_bytes_ = 0;
  int64_t num_scalars_ = 0;
  int64_t num_containers_ = 0;
};

// For JSON that the reader has taken; for other text the result means nothing. InvalidArgument
// names the place: "sources[1].ids.ids[0]: is null; ...".
absl::Status CheckStrictJson(absl::string_view json);

// Requests as files of a bundle hold them, one JSON object a line (golden.jsonl, warmup.jsonl;
// docs/bundle.md).

struct RequestLine {
  int number = 0;  // in the file, from 1
  v1::Source source;
  v1::DecodeOptions options;
  google::protobuf::Struct fields;  // all that the line has
};

// At most `max_requests` of the lines that are not empty, spread over the file. "source" is a text
// or a v1::Source, "options" a v1::DecodeOptions. InvalidArgument naming line and field.
absl::StatusOr<std::vector<RequestLine>> ReadRequestLines(const std::string& content,
                                                          int max_requests);

// One field of a line as the message that it is: {"field": value} if the message is around it.
absl::Status ReadField(const google::protobuf::Struct& line, const std::string& field,
                       bool is_inside, google::protobuf::Message& message);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_PROTO_TEXT_H_
