// Convolution and pooling as several operators of ONNX ask for them: with the node's attributes, on
// inputs that its translation has prepared. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_CONVOLUTION_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_CONVOLUTION_H_

#include "ops/import/onnx_node.h"

namespace beamwright::ops {

// x [N, C, ...] by weights [M, C / group, ...], and bias [M] unless that is absent, under the
// attributes of Conv.
ValueId Convolved(OnnxNode& n, ValueId x, ValueId weights, ValueId bias);
// Under the attributes of AveragePool.
ValueId AveragePooled(OnnxNode& n, ValueId x, bool has_dilations);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_CONVOLUTION_H_
