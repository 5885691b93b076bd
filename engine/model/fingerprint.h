// What a model is, in 32 bytes: states that one model made are read by no other.
#ifndef BEAMWRIGHT_ENGINE_MODEL_FINGERPRINT_H_
#define BEAMWRIGHT_ENGINE_MODEL_FINGERPRINT_H_

#include <string>

#include "beamwright/v1/model.pb.h"
#include "engine/bundle/text_codec.h"
#include "ops/graph/graph.h"

namespace beamwright::engine {

// SHA-256 of the graph as it was imported, with all constants, of what model.textproto says of it,
// and of what each token of the vocabulary writes.
std::string Fingerprint(const ops::Graph& decoder, const v1::DecoderConfig& config,
                        const bundle::TextCodec& target);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_FINGERPRINT_H_
