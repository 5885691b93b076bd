// How messages name parts of an ONNX model, and what its numbers for types mean. Private to
// import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_TEXT_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "onnx/onnx_pb.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_TEXT_H_
