// Messages in protobuf's text form, as people write them into files.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_TEXT_PROTO_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_TEXT_PROTO_H_

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace beamwright::bundle {

// InvalidArgument: all syntax errors with line and column ("12:5: ..."), or text that is not UTF-8.
// Rules of fields are not looked at (rules.h does that).
absl::Status ParseTextProto(const std::string& text, google::protobuf::Message& message);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_TEXT_PROTO_H_
