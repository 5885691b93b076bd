// An ONNX file before it becomes messages: what its bytes would take as messages, a model without
// the elements of its large tensors, and what exporters wrote besides the graph.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_OUTLINE_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_OUTLINE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "onnx/onnx_pb.h"
#include "ops/base/file.h"

namespace beamwright::ops {

// What a model's bytes would take as messages, found by walking them without making any: two bytes
// of a file can ask for a message of some hundred.

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

// A model without the elements of its large tensors. A parsed message holds its bytes a second
// time, and a model's weights would be in memory three times over; so they stay in the file, and
// the messages say where.

// The bytes of the model in `file`, a mark in the place of each large `raw_data` or packed
// `float_data` of a tensor; everything else as it stands. InvalidArgument if they are not a
// protobuf message or nest deeper than 100 messages, and errors of reading.
absl::StatusOr<std::string> OutlineOnnx(const InputFile& file);

// Where elements stand in the file.
struct OnnxElements {
  int64_t offset = 0;
  int64_t size = 0;
  bool is_float_data = false;
};

// Of a tensor of an outlined model; nothing if the message holds its elements itself.
// InvalidArgument if it has them more than once.
absl::StatusOr<std::optional<OnnxElements>> ElementsInFile(const onnx::TensorProto& tensor);

// What an exporter wrote into an ONNX file besides the graph: its metadata_props. Nothing computes
// with it; toolkits name there the kind of model.

using Metadata = std::map<std::string, std::string>;

// Values by key, of a key that occurs twice the first. Empty where the file is no ONNX model, which
// ReadOnnx says better.
Metadata OnnxMetadata(const InputFile& file);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_OUTLINE_H_
