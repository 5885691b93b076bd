// Requests as files of a bundle hold them, one JSON object a line (golden.jsonl, warmup.jsonl;
// docs/bundle.md). Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_OPTIONS_REQUEST_LINES_H_
#define BEAMWRIGHT_ENGINE_OPTIONS_REQUEST_LINES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "google/protobuf/struct.pb.h"

namespace beamwright::engine {

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

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_OPTIONS_REQUEST_LINES_H_
