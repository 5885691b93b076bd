// Protobuf's text form with all that is wrong with it told at once. Private to model/.
#ifndef BEAMWRIGHT_SERVER_MODEL_TEXT_PROTO_H_
#define BEAMWRIGHT_SERVER_MODEL_TEXT_PROTO_H_

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace beamwright::model {

// Reads `text` into `message`. InvalidArgument: text that is not UTF-8, or every syntax error with
// line and column ("12:5: ...").
absl::Status ParseTextProto(const std::string& text, google::protobuf::Message& message);

}  // namespace beamwright::model

#endif  // BEAMWRIGHT_SERVER_MODEL_TEXT_PROTO_H_
