// What an encoder reads, where `init` has to find it out: how sound and pictures become its input,
// and trials over made-up sources where names and types leave it open.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_INPUT_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_INPUT_H_

#include <optional>
#include <string>
#include <vector>

#include "beamwright/v1/model.pb.h"
#include "ops/graph/graph.h"
#include "ops/import/onnx_outline.h"
#include "tools/bundle/init_parts.h"
#include "tools/graph/roles.h"

namespace beamwright::tools {

// How a picture becomes what an encoder reads, as the shape of its input suggests.

// Sets config.picture if the encoder reads f32 of four axes, of which one has 1 or 3 extents
// (channels), and no sound; `reasons` gets a line.
void AddPicture(const ops::Graph& encoder, v1::ModelConfig& config,
                std::vector<std::string>& reasons);

// How sound becomes what an encoder reads, as its exporter's metadata and ports say.

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

// Encoders run over a made-up source, where names and types leave open what they read.

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

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_INPUT_H_
