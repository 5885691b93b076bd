// What calls of functions copy. A function is translated anew at each call, so a few bytes may ask
// for any number of copies of its names and lists. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_CALLS_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_CALLS_H_

#include "absl/status/status.h"
#include "onnx/onnx_pb.h"
#include "ops/import/onnx_graph.h"

namespace beamwright::ops {

// Bytes that reading the attribute, or translating the function once, makes anew: names and lists.
// Tensors are read once.
int64_t CopiedBytes(const onnx::AttributeProto& attribute);
int64_t CopiedBytes(const onnx::FunctionProto& function);

// InvalidArgument where all calls so far copy more than 16 MiB and four times the file.
absl::Status AddCopied(int64_t bytes, OnnxImport& import);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_CALLS_H_
