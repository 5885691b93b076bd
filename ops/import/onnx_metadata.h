// What an exporter wrote into an ONNX file besides the graph: its metadata_props. Nothing computes
// with it; toolkits name there the kind of model.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_METADATA_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_METADATA_H_

#include <map>
#include <string>

#include "ops/base/input_file.h"

namespace beamwright::ops {

using Metadata = std::map<std::string, std::string>;

// Values by key, of a key that occurs twice the first. Empty where the file is no ONNX model, which
// ReadOnnx says better.
Metadata OnnxMetadata(const InputFile& file);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_METADATA_H_
