// Products that several operators of ONNX ask for. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_MATMUL_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_MATMUL_H_

#include "ops/import/onnx_node.h"

namespace beamwright::ops {

// alpha * a' * b', under the node's attributes.
ValueId ScaledProduct(OnnxNode& n, ValueId a, ValueId b);
// alpha * A' * B' + beta * C, under the node's attributes and of its first three inputs.
ValueId GeneralProduct(OnnxNode& n);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_MATMUL_H_
