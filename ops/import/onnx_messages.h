// The messages of an ONNX model: how they name its parts, what their numbers for types mean, and
// tensors, which become constants. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_MESSAGES_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_MESSAGES_H_

#include <map>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "onnx/onnx_pb.h"
#include "ops/graph/graph.h"
#include "ops/import/graph_file.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// How messages name parts of an ONNX model, and what its numbers for types mean.

inline constexpr int kMaxOnnxRank = 32;

// A name in quotes, cut where it is long.
std::string Quote(absl::string_view name);
// "node 12 'cell' (LSTM)"; a domain other than the default stands before the type.
std::string Describe(const onnx::NodeProto& node, int index);
// "LSTM", "com.microsoft.Gelu".
std::string TypeName(const onnx::NodeProto& node);
// "" for both names of the default domain.
absl::string_view Domain(absl::string_view domain);

// TensorProto.DataType. Unimplemented for text, complex numbers and types below 8 bits.
absl::StatusOr<DType> OnnxType(int64_t data_type);
// Type and shape of a tensor; kUndefined and an unknown rank where nothing is said. Symbolic
// extents are unknown ones. Unimplemented for sequences, maps and optional values, InvalidArgument
// for negative extents, ranks above kMaxOnnxRank and more than 2^48 elements.
absl::StatusOr<ValueInfo> OnnxValueInfo(const onnx::TypeProto& type);

// The constants of an ONNX model: TensorProto messages, whose elements are in the message or in
// separate files.

// Makes tensors of messages, each once: a message that is met again (in a function that is called
// twice) gives the same elements. What external data may take altogether is bounded by a small
// multiple of its files: overlapping ranges of a hostile file cannot ask for more.
class OnnxTensors {
 public:
  // `model`: the file that messages were outlined from (ops/import/onnx_outline.h).
  OnnxTensors(InputFilePtr model, OpenFileFunction open)
      : model_(std::move(model)), open_(std::move(open)) {}

  // `message` must live as long as this. InvalidArgument: elements and shape do not fit together,
  // external data outside its file or the model's folder; Unimplemented: element type.
  absl::StatusOr<Tensor> Read(const onnx::TensorProto& message);

 private:
  absl::Status ReadExternal(const onnx::TensorProto& message, Tensor& tensor);
  absl::StatusOr<InputFilePtr> File(const std::string& location);

  InputFilePtr model_;
  OpenFileFunction open_;
  absl::flat_hash_map<const onnx::TensorProto*, Tensor> tensors_;
  std::map<std::string, InputFilePtr> files_;
  int64_t file_bytes_ = 0;
  int64_t external_bytes_ = 0;
};

// A tensor of a message that holds its elements, as ONNX's test data does.
absl::StatusOr<Tensor> ReadInlineTensor(const onnx::TensorProto& message);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_MESSAGES_H_
