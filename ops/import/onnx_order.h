// Which nodes of a graph are needed, and in which order they can be computed. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_ORDER_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_ORDER_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx/onnx_pb.h"

namespace beamwright::ops {

using OnnxNodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// Indices of the nodes that `outputs` depend on, each behind those that it depends on, in the order
// of the file where that is free. `given`: names that are defined without nodes. Graphs in
// attributes depend on the names that they take from around them. InvalidArgument: a name with two
// definitions, a cycle (naming a node in it).
absl::StatusOr<std::vector<int>> OrderOnnxNodes(const OnnxNodes& nodes,
                                                const absl::flat_hash_set<std::string>& given,
                                                absl::Span<const std::string> outputs);

// Names of inputs and initializers of a graph. InvalidArgument if one occurs twice.
absl::StatusOr<absl::flat_hash_set<std::string>> GivenNames(const onnx::GraphProto& graph);
std::vector<std::string> OutputNames(const onnx::GraphProto& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_ORDER_H_
