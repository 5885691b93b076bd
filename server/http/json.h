// JSON as clients of the Open Inference Protocol expect it: 64-bit integers are numbers, not
// strings as in protobuf's own mapping.
#ifndef BEAMWRIGHT_SERVER_HTTP_JSON_H_
#define BEAMWRIGHT_SERVER_HTTP_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace beamwright::http {

// `text` in quotes. What is not UTF-8 is replaced by U+FFFD.
void AppendQuoted(absl::string_view text, std::string& json);

// A number, in the fewest digits that are read as it; null for what JSON can't say (infinity, NaN).
void AppendNumber(double value, std::string& json);
void AppendNumber(float value, std::string& json);

// A message with the field names of its proto; fields that are unset are written with their
// default, sub-messages that are unset are left out.
void AppendMessage(const google::protobuf::Message& message, std::string& json);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_JSON_H_
