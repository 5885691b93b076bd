// How sound becomes what an encoder reads, as its exporter's metadata and ports say.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_SOUND_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_SOUND_H_

#include <optional>
#include <string>
#include <vector>

#include "beamwright/v1/model.pb.h"
#include "ops/graph/graph.h"
#include "ops/import/onnx_metadata.h"
#include "tools/bundle/init_parts.h"

namespace beamwright::tools {

struct SoundFacts {
  v1::SoundConfig config;
  std::string cmvn;    // content of config.cmvn
  float frame_ms = 0;  // of the encoder's frames; 0: unknown
};

// None: nothing says it. `reasons` gets a line for each guess. `has_decoder`: of a model that is
// decoded token by token.
std::optional<SoundFacts> FindSound(const ops::Graph& encoder, const v1::EncoderConfig& config,
                                    const ops::Metadata& metadata, bool has_decoder,
                                    std::vector<std::string>& reasons);

// Adds what was found, if anything.
void AddSound(const std::optional<SoundFacts>& facts, Files& files, v1::ModelConfig& config);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_SOUND_H_
