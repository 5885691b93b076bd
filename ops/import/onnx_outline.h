// A model without the elements of its large tensors. A parsed message holds its bytes a second
// time, and a model's weights would be in memory three times over; so they stay in the file, and
// the messages say where. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_OUTLINE_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_OUTLINE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "ops/base/input_file.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_OUTLINE_H_
