// What a model's bytes would take as messages, found by walking them without making any: two bytes
// of a file can ask for a message of some hundred. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_WIRE_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_WIRE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace beamwright::ops {

// Messages of onnx.proto that hold others; kText is anything that is not a message.
enum class OnnxMessage {
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kValue,
  kFunction,
  kOther,
  kText
};

// What a field of a message holds.
OnnxMessage OnnxFieldOf(OnnxMessage message, uint64_t field);

// The field's number in a tag, of which protobuf, too, reads 32 bits.
inline uint64_t OnnxFieldNumber(uint64_t tag) { return static_cast<uint32_t>(tag) >> 3; }

inline constexpr int kMaxOnnxDepth = 100;

// InvalidArgument if the bytes are not a protobuf message, nest deeper than 100 messages, or would
// take more than 64 MiB and four times `file_bytes`, the size of the file that they come from.
absl::Status CheckOnnxMemory(absl::string_view bytes, int64_t file_bytes);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_WIRE_H_
