// Messages as JSON. Two forms: protobuf's own, and that of the Open Inference Protocol, whose
// clients read 64-bit integers as numbers and know nothing of NaN.
#ifndef BEAMWRIGHT_SERVER_HTTP_MESSAGE_JSON_H_
#define BEAMWRIGHT_SERVER_HTTP_MESSAGE_JSON_H_

#include <string>

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

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_MESSAGE_JSON_H_
