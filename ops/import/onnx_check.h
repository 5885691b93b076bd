// What a model asks for that is not there, found before anything is translated, so that one error
// lists all of it. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_CHECK_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_CHECK_H_

#include "absl/status/status.h"
#include "ops/import/onnx_graph.h"

namespace beamwright::ops {

// Unimplemented with every node, also in bodies and functions, that outputs need and whose operator
// is not known at the model's opset; the first 50 by name. Other errors: those of OrderOnnxNodes.
absl::Status CheckOnnxOperators(const onnx::GraphProto& graph, const OnnxImport& import,
                                const OnnxOpsets& opsets);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_CHECK_H_
