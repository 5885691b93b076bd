// How a picture becomes what an encoder reads, as the shape of its input suggests.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_PICTURE_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_PICTURE_H_

#include <string>
#include <vector>

#include "beamwright/v1/model.pb.h"
#include "ops/graph/graph.h"

namespace beamwright::tools {

// Sets config.picture if the encoder reads f32 of four axes, of which one has 1 or 3 extents
// (channels), and no sound; `reasons` gets a line.
void AddPicture(const ops::Graph& encoder, v1::ModelConfig& config,
                std::vector<std::string>& reasons);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_PICTURE_H_
