// Activations as attributes of other operators name them. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_ACTIVATION_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_ACTIVATION_H_

#include <optional>
#include <string>

#include "ops/import/onnx_node.h"

namespace beamwright::ops {

// The numbers of an activation; unset: the operator's own defaults.
struct ActivationNumbers {
  std::optional<double> alpha;
  std::optional<double> beta;
  std::optional<double> gamma;
};

// x under the operator of ONNX that `name` names: Relu, Tanh, LeakyRelu and others, and Clip, whose
// bounds are alpha and beta. An error for another name.
ValueId Activated(OnnxNode& n, ValueId x, const std::string& name,
                  const ActivationNumbers& numbers);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_ACTIVATION_H_
