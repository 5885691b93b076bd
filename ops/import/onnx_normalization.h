// Normalisations that several operators of ONNX ask for. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_NORMALIZATION_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_NORMALIZATION_H_

#include <vector>

#include "ops/import/onnx_node.h"

namespace beamwright::ops {

// x less its mean over `axes`, divided by sqrt(variance + epsilon), times scale, plus bias unless
// that is absent.
ValueId LayerNormalized(OnnxNode& n, ValueId x, const std::vector<int64_t>& axes, double epsilon,
                        ValueId scale, ValueId bias);
// Writes the mean to output `mean` and 1 / sqrt(variance + epsilon) to the one behind it, where
// they are read.
void WriteMoments(OnnxNode& n, ValueId x, const std::vector<int64_t>& axes, double epsilon,
                  int mean);
// x divided by sqrt(mean of its squares over `axes` + epsilon), times scale. `inverse`, unless it
// is negative: the output that the divisor's inverse is written to.
ValueId RmsNormalized(OnnxNode& n, ValueId x, const std::vector<int64_t>& axes, double epsilon,
                      ValueId scale, int inverse);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_NORMALIZATION_H_
