// Extents that an export fixed at those of its example, where requests will bring others.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_FIXED_EXTENTS_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_FIXED_EXTENTS_H_

#include <string>
#include <vector>

#include "beamwright/v1/model.pb.h"
#include "ops/graph/graph.h"
#include "tools/graph/roles.h"

namespace beamwright::tools {

// One line for each, with what to export instead: the length of sources, and memory whose length
// the encoder varies. `encoder`: null if missing. Graphs as InferGraph leaves them.
std::vector<std::string> FixedExtents(const ops::Graph* encoder, const v1::EncoderConfig& config,
                                      const ops::Graph& decoder, const ops::DecoderRoles& roles,
                                      bool is_padded = false);

// Of an encoder alone.
// How many ids every source must have; 0: as many as it likes, or it has no ids.
int64_t FixedLength(const ops::Graph& encoder, const v1::EncoderConfig& config);

std::vector<std::string> FixedSource(const ops::Graph& encoder, const v1::EncoderConfig& config);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_FIXED_EXTENTS_H_
