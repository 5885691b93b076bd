// Writes model.textproto: the message beamwright.v1.ModelConfig in protobuf's text form
// (docs/bundle.md). Written by hand, because ops/ does not depend on the protos; a test of the
// server's reads it.
#ifndef BEAMWRIGHT_OPS_TOOLS_BUNDLE_TEXT_H_
#define BEAMWRIGHT_OPS_TOOLS_BUNDLE_TEXT_H_

#include <optional>
#include <string>
#include <vector>

#include "ops/tools/roles.h"
#include "ops/tools/text_side.h"

namespace beamwright::ops {

struct BundleDescription {
  std::string name;                     // empty: left to the folder's name
  std::vector<std::string> reasons;     // written as comments
  std::string encoder_graph;            // file names in the bundle
  std::optional<EncoderRoles> encoder;  // none: requests bring the decoder's inputs
  std::string decoder_graph;
  DecoderRoles decoder;
  TextSide source;
  TextSide target;
};

// What the description lacks stands in the text as a comment that says what to write; the server
// refuses the file until it is written.
std::string FormatBundle(const BundleDescription& bundle);

// The lacks, one line each; empty if the bundle is complete.
std::vector<std::string> OpenQuestions(const BundleDescription& bundle);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_TOOLS_BUNDLE_TEXT_H_
