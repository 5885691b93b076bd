// Bounds of what a request may hold. Every list, string and bytes field of a request has one: in
// its rule (FieldRule.max_items of proto/beamwright/v1/rule.proto) or, for the Open Inference
// Protocol, whose protos belong to others, in a table of bounds.cc. They are checked on the wire
// format, before a message is made of it: a field takes two bytes there and up to some hundred in
// memory.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_BOUNDS_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_BOUNDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/message.h"

namespace beamwright::bundle {

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

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_BOUNDS_H_
