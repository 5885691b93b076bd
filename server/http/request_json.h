// Requests in the JSON form of their messages.
#ifndef BEAMWRIGHT_SERVER_HTTP_REQUEST_JSON_H_
#define BEAMWRIGHT_SERVER_HTTP_REQUEST_JSON_H_

#include <google/protobuf/struct.pb.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace beamwright::http {

// Fills `request` as protobuf's JSON reader does; values of enums go by their short names, too
// ("pow" for LENGTH_PENALTY_POW), as on the command line. InvalidArgument naming every field that
// the message does not have, with the one that was probably meant, and every value of a wrong
// type; or where the JSON itself is wrong.
absl::Status ReadRequest(const std::string& body, google::protobuf::Message& request);

// The members of a body that is a JSON object. InvalidArgument; JSON that is nested too deep, has
// too many values, or is not strict is refused (engine/bundle/proto_text.h).
absl::StatusOr<google::protobuf::Struct> ReadObject(const std::string& body);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_REQUEST_JSON_H_
