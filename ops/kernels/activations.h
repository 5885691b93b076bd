// The activation functions of recurrent cells, chosen by name at load.
#ifndef BEAMWRIGHT_OPS_KERNELS_ACTIVATIONS_H_
#define BEAMWRIGHT_OPS_KERNELS_ACTIVATIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/graph/attributes.h"

namespace beamwright::ops {

enum class ActivationKind {
  kSigmoid,
  kTanh,
  kRelu,
  kHardSigmoid,      // min(max(alpha x + beta, 0), 1); alpha 0.2, beta 0.5
  kAffine,           // alpha x + beta; alpha 1, beta 0
  kLeakyRelu,        // x < 0 ? alpha x : x; alpha 0.01
  kThresholdedRelu,  // x > alpha ? x : 0; alpha 1
  kScaledTanh,       // alpha tanh(beta x); alpha 1, beta 1
  kElu,              // x < 0 ? alpha (exp(x) - 1) : x; alpha 1
  kSoftsign,         // x / (1 + |x|)
};

struct Activation {
  ActivationKind kind = ActivationKind::kSigmoid;
  float alpha = 0;
  float beta = 0;
};

// Attributes activations (names without case; absent: `defaults`), activations_alpha and
// activations_beta (by position; missing entries take the function's default).
absl::StatusOr<std::vector<Activation>> ParseActivations(const Attributes& attributes,
                                                         std::vector<std::string> defaults);

// values[i] = f(values[i]), clipped to [-clip, clip] before if clip > 0.
void Activate(const Activation& activation, float clip, absl::Span<float> values);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ACTIVATIONS_H_
