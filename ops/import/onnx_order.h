// Of the nodes of an ONNX graph, before they are translated: which are needed, in which order, and
// how much calls of functions copy. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_ORDER_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_ORDER_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx/onnx_pb.h"
#include "ops/import/onnx_graph.h"

namespace beamwright::ops {

// Which nodes of a graph are needed, and in which order they can be computed.

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

// What calls of functions copy. A function is translated anew at each call, so a few bytes may ask
// for any number of copies of its names and lists.

// Bytes that reading the attribute, or translating the function once, makes anew: names and lists.
// Tensors are read once.
int64_t CopiedBytes(const onnx::AttributeProto& attribute);
int64_t CopiedBytes(const onnx::FunctionProto& function);

// InvalidArgument where all calls so far copy more than 16 MiB and four times the file.
absl::Status AddCopied(int64_t bytes, OnnxImport& import);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_ORDER_H_
