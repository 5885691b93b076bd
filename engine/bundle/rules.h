// Validation, bounds and defaults derived from the protos' field rules
// (proto/beamwright/v1/rule.proto).
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_RULES_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_RULES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "beamwright/v1/rule.pb.h"
#include "engine/status/fault.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/message.h"

namespace beamwright::bundle {

// Bounds of what a request may hold. Every list, string and bytes field of a request has one: in
// its rule (FieldRule.max_items of proto/beamwright/v1/rule.proto) or, for the Open Inference
// Protocol, whose protos belong to others, in a table of bounds.cc. They are checked on the wire
// format, before a message is made of it: a field takes two bytes there and up to some hundred in
// memory.

// Most elements of a repeated field or a map, or most bytes of a string or bytes field; 0: no
// bound.
int64_t MaxItems(const google::protobuf::FieldDescriptor& field);

// "33 elements; at most 32 are allowed" for a length above MaxItems; else empty.
std::string TooLong(const google::protobuf::FieldDescriptor& field, int64_t length);

// InvalidArgument naming the first field of a serialised message of this type that is beyond its
// bound, "sources[3].features.shape: ...", or if the message has more than kMaxFields fields in
// all. In one pass, without a copy. Malformed bytes are left to the parser.
inline constexpr int64_t kMaxFields = int64_t{1} << 17;
absl::Status CheckBounds(const google::protobuf::Descriptor& type,
                         google::protobuf::io::CodedInputStream& bytes);
// The same for a message that was read from another form (JSON, parameters of a URL).
absl::Status CheckBounds(const google::protobuf::Message& message);

// Adds a fault for each set field whose value is outside its rule (or not a known enum value, not a
// finite number, a string that is not UTF-8, or too many elements), "options.beam_size: 0 is
// outside [1, 256] hypotheses". `path` prefixes field names; sub-messages are visited. All faults
// are found at once.
void CheckRules(const google::protobuf::Message& message, const std::string& path,
                status::Faults& faults);
// The same for one field of the message, which is set.
void CheckRule(const google::protobuf::Message& message,
               const google::protobuf::FieldDescriptor& field, const std::string& path,
               status::Faults& faults);

// Adds a fault for each set field that a model of `search` does not know (FieldRule.searches).
void CheckSearches(const google::protobuf::Message& options, v1::Search search,
                   const std::string& path, status::Faults& faults);

// Sets every unset field of `message` that `fallback` (same type) sets; then every optional one
// that is still unset and whose rule names a default, to that. An enum value that is explicitly
// "unspecified" counts as unset, a repeated field with elements as set; messages and repeated
// fields are taken whole, not merged.
void ApplyDefaults(const google::protobuf::Message& fallback, google::protobuf::Message& message);

// The value of an enum by its short name, the end of the full name: "safe" of StopMode is
// STOP_MODE_SAFE. Null if missing.
const google::protobuf::EnumValueDescriptor* FindEnumValue(
    const google::protobuf::EnumDescriptor* type, const std::string& text);

// The short names, "safe, first, count, never", without "unspecified".
std::string EnumNames(const google::protobuf::EnumDescriptor* type);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_RULES_H_
