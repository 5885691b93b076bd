// Protobuf fields as a person types and reads them. flags.h makes flags of them.
#ifndef BEAMWRIGHT_CLIENT_CLI_FIELD_H_
#define BEAMWRIGHT_CLIENT_CLI_FIELD_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace beamwright::client {

// "--beam-size"
std::string FlagName(const google::protobuf::FieldDescriptor& field);

// What a value may be: "1 to 256 hypotheses", "none, pow or gnmt".
std::string AllowedValues(const google::protobuf::FieldDescriptor& field);

// The placeholder in --help: INT, NUMBER, NAME, TEXT or JSON.
std::string ValueKind(const google::protobuf::FieldDescriptor& field);

// Sets the field (adds to it, if repeated) from text. InvalidArgument if the text is not one of
// AllowedValues, or if a field that is not repeated has been set before.
absl::Status SetField(const google::protobuf::FieldDescriptor& field, absl::string_view text,
                      google::protobuf::Message& message);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_FIELD_H_
