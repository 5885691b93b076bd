// ONNX models and test data for tests: tensors from .pb files, and small models built in place.
#ifndef BEAMWRIGHT_TESTS_OPS_IMPORT_ONNX_FILES_H_
#define BEAMWRIGHT_TESTS_OPS_IMPORT_ONNX_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "ops/graph/graph.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops::fixture {

// The node tests that the distribution ships (libonnx-testdata), sorted; empty if not installed.
std::vector<std::string> OnnxNodeTests();
std::string OnnxNodeTestFolder(const std::string& test);

// Tensors `<kind>_0.pb`, `<kind>_1.pb`, ... of a folder. Unimplemented where one is not a tensor,
// or of an element type that is not supported.
absl::StatusOr<std::vector<Tensor>> ReadTensors(const std::string& folder, const std::string& kind);

// "" if equal, else what differs: exactly for integers and booleans, by the relative and absolute
// tolerance for floats; NaN equals NaN.
std::string Difference(const Tensor& actual, const Tensor& expected, double tolerance);

// A model of the opset that holds the graph.
onnx::ModelProto Model(onnx::GraphProto graph, int64_t opset = 17);
// Parses protobuf's text form; a fault is a test failure.
onnx::GraphProto GraphOf(const std::string& text);
absl::StatusOr<Graph> Parse(const onnx::ModelProto& model);
// The message of the error that parsing gives, "" if it succeeds.
std::string ErrorOf(const onnx::ModelProto& model);

}  // namespace beamwright::ops::fixture

#endif  // BEAMWRIGHT_TESTS_OPS_IMPORT_ONNX_FILES_H_
