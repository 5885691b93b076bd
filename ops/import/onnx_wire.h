// What a model's bytes would take as messages, found by walking them without making any: two bytes
// of a file can ask for a message of some hundred. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_WIRE_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_WIRE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace beamwright::ops {

// InvalidArgument if the bytes are no protobuf message, nest deeper than 100 messages, or would
// take more than 64 MiB and four times their own size.
absl::Status CheckOnnxMemory(absl::string_view bytes);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_WIRE_H_
