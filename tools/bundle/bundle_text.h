// What `init` has found as the message of model.textproto (docs/bundle.md), and that file's text.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_BUNDLE_TEXT_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_BUNDLE_TEXT_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"
#include "tools/graph/frame_roles.h"
#include "tools/graph/roles.h"

namespace beamwright::tools {

// `graph`: the file's name in the bundle.
v1::EncoderConfig EncoderConfigOf(const std::string& graph, const ops::EncoderRoles& roles);
// Starts of states and memory that follow from names are left to the server, which finds them.
v1::DecoderConfig DecoderConfigOf(const std::string& graph, const ops::DecoderRoles& roles);
v1::CtcConfig CtcConfigOf(const ops::CtcRoles& roles, int32_t blank);
// `joiner`: empty if the predictor's graph is both.
v1::TransducerConfig TransducerConfigOf(const std::string& predictor, const std::string& joiner,
                                        const ops::TransducerRoles& roles);

// What the server refuses the bundle for until it is written, one line each; empty if the
// bundle is complete.
std::vector<std::string> OpenQuestions(const v1::ModelConfig& config);

// The text, with the reasons of all guesses and the open questions as comments before it.
std::string FormatBundle(const v1::ModelConfig& config, absl::Span<const std::string> reasons);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_BUNDLE_TEXT_H_
