// Messages as JSON. Two forms: protobuf's own, and that of the Open Inference Protocol, whose
// clients read 64-bit integers as numbers and know nothing of NaN.
#ifndef BEAMWRIGHT_SERVER_HTTP_MESSAGE_JSON_H_
#define BEAMWRIGHT_SERVER_HTTP_MESSAGE_JSON_H_

#include <google/protobuf/struct.pb.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "google/rpc/status.pb.h"
#include "ops/base/json_writer.h"

namespace beamwright::http {

// Protobuf's form with the field names of the proto. Details of errors within the message have
// protobuf's own names (fieldViolations), which client libraries look for.
absl::StatusOr<std::string> ProtobufJson(const google::protobuf::Message& message);

// The details as a list, in protobuf's form, as google.rpc.Status is written in JSON.
void WriteDetails(const google::rpc::Status& status, JsonWriter& json);

// The Open Inference Protocol's form, with the field names of the proto; fields that are unset are
// written with their default, sub-messages that are unset are left out.
void WriteMessage(const google::protobuf::Message& message, JsonWriter& json);

// Requests in the JSON form of their messages.

// Fills `request` as protobuf's JSON reader does; values of enums go by their short names, too
// ("pow" for LENGTH_PENALTY_POW), as on the command line. InvalidArgument naming every field that
// the message does not have, with the one that was probably meant, and every value of a wrong
// type; or where the JSON itself is wrong.
absl::Status ReadRequest(const std::string& body, google::protobuf::Message& request);

inline constexpr int64_t kMaxObjectScalars = int64_t{1} << 17;

// The members of a body that is a JSON object, with kMaxObjectScalars at most. InvalidArgument;
// JSON that is nested too deep, has too many values, or is not strict is refused
// (engine/bundle/proto_text.h).
absl::StatusOr<google::protobuf::Struct> ReadObject(const std::string& body);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_MESSAGE_JSON_H_
