// Activations of recurrent cells: ParseActivations reads them by name with alpha and beta, Activate
// applies one to a span, after clipping. Each kind has a loop of its arithmetic alone, so that the
// compiler makes vectors of it (Apply).
#include "ops/kernels/activations.h"

#include "absl/strings/ascii.h"
#include "ops/base/status.h"
#include "ops/kernels/math.h"

namespace beamwright::ops {
namespace {

struct Entry {
  const char* name;
  Activation activation;  // with default alpha and beta
};

constexpr Entry kEntries[] = {
    {"sigmoid", {ActivationKind::kSigmoid}},
    {"tanh", {ActivationKind::kTanh}},
    {"relu", {ActivationKind::kRelu}},
    {"hardsigmoid", {ActivationKind::kHardSigmoid, 0.2f, 0.5f}},
    {"affine", {ActivationKind::kAffine, 1.0f, 0.0f}},
    {"leakyrelu", {ActivationKind::kLeakyRelu, 0.01f}},
    {"thresholdedrelu", {ActivationKind::kThresholdedRelu, 1.0f}},
    {"scaledtanh", {ActivationKind::kScaledTanh, 1.0f, 1.0f}},
    {"elu", {ActivationKind::kElu, 1.0f}},
    {"softsign", {ActivationKind::kSoftsign}},
};

template <typename F>
void Apply(absl::Span<float> values, F f) {
  float* const data = values.data();
  const size_t count = values.size();
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (size_t i = 0; i < count; ++i) {
      data[i] = f(data[i]);
    }
  });
}

}  // namespace

absl::StatusOr<std::vector<Activation>> ParseActivations(const Attributes& attributes,
                                                         std::vector<std::string> defaults) {
  const size_t count = defaults.size();
  BW_ASSIGN_OR_RETURN(std::vector<std::string> names, attributes.Strings("activations", {}));
  BW_ASSIGN_OR_RETURN(const std::vector<double> alpha, attributes.Floats("activations_alpha", {}));
  BW_ASSIGN_OR_RETURN(const std::vector<double> beta, attributes.Floats("activations_beta", {}));
  if (names.empty()) {
    names = std::move(defaults);
  }
  if (names.size() != count || alpha.size() > count || beta.size() > count) {
    return Invalid("attributes activations, activations_alpha, activations_beta: have ",
                   names.size(), ", ", alpha.size(), " and ", beta.size(),
                   " entries, the cell has ", count, " activations");
  }
  std::vector<Activation> result;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = absl::AsciiStrToLower(names[i]);
    const Entry* found = nullptr;
    for (const Entry& entry : kEntries) {
      found = name == entry.name ? &entry : found;
    }
    if (found == nullptr) {
      std::string known;
      for (const Entry& entry : kEntries) {
        absl::StrAppend(&known, known.empty() ? "" : ", ", entry.name);
      }
      return Invalid("attribute activations: '", names[i], "' is not supported, only ", known);
    }
    Activation activation = found->activation;
    activation.alpha = i < alpha.size() ? static_cast<float>(alpha[i]) : activation.alpha;
    activation.beta = i < beta.size() ? static_cast<float>(beta[i]) : activation.beta;
    result.push_back(activation);
  }
  return result;
}

void Activate(const Activation& activation, float clip, absl::Span<float> values) {
  const float alpha = activation.alpha;
  const float beta = activation.beta;
  if (clip > 0) {
    Apply(values, [clip](float x) BW_ALWAYS_INLINE {
      const float low = x < -clip ? -clip : x;
      return low > clip ? clip : low;
    });
  }
  switch (activation.kind) {
    case ActivationKind::kSigmoid:
      return Apply(values, [](float x) BW_ALWAYS_INLINE { return Sigmoid(x); });
    case ActivationKind::kTanh:
      return Apply(values, [](float x) BW_ALWAYS_INLINE { return Tanh(x); });
    case ActivationKind::kRelu:
      return Apply(values, [](float x) BW_ALWAYS_INLINE { return x < 0.0f ? 0.0f : x; });
    case ActivationKind::kHardSigmoid:
      return Apply(values, [alpha, beta](float x) BW_ALWAYS_INLINE {
        const float y = alpha * x + beta;
        return y < 0.0f ? 0.0f : y > 1.0f ? 1.0f : y;
      });
    case ActivationKind::kAffine:
      return Apply(values, [alpha, beta](float x) BW_ALWAYS_INLINE { return alpha * x + beta; });
    case ActivationKind::kLeakyRelu:
      return Apply(values, [alpha](float x) BW_ALWAYS_INLINE { return x < 0.0f ? alpha * x : x; });
    case ActivationKind::kThresholdedRelu:
      return Apply(values, [alpha](float x) BW_ALWAYS_INLINE { return x > alpha ? x : 0.0f; });
    case ActivationKind::kScaledTanh:
      return Apply(values,
                   [alpha, beta](float x) BW_ALWAYS_INLINE { return alpha * Tanh(beta * x); });
    case ActivationKind::kElu:
      return Apply(values, [alpha](float x)
                               BW_ALWAYS_INLINE { return x < 0.0f ? alpha * (Exp(x) - 1.0f) : x; });
    case ActivationKind::kSoftsign:
      return Apply(values,
                   [](float x) BW_ALWAYS_INLINE { return x / (1.0f + (x < 0.0f ? -x : x)); });
  }
}

}  // namespace beamwright::ops
