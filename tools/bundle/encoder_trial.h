// Encoders run over a made-up source, where names and types leave open what they read.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_TRIAL_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_TRIAL_H_

#include <string>
#include <vector>

#include "ops/graph/graph.h"
#include "tools/graph/roles.h"

namespace beamwright::tools {

inline constexpr int64_t kTrialLength = 5;

// The index into graph.parameters of a port; -1: the graph has no such port.
int ParameterOf(const ops::Graph& graph, const std::string& name);

// One source [1, kTrialLength, ...] of zeros for `source` and its length; other extents that are
// open are 1, other inputs zeros.
std::vector<ops::Tensor> TrialInputs(const ops::Graph& graph, const std::string& source,
                                     const ops::EncoderRoles& roles);

// Whether the mask over the source, roles.length_input, is true where there is no token: where it
// is true everywhere, some result does not follow the source that does where it is false.
bool IsTrueAtPadding(const ops::Graph& encoder, const ops::EncoderRoles& roles);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_TRIAL_H_
