// A bundle's graphs, compiled: what of them is the encoder and the decoder. Private to engine/.
#ifndef BEAMWRIGHT_SERVER_ENGINE_COMPILE_GRAPHS_H_
#define BEAMWRIGHT_SERVER_ENGINE_COMPILE_GRAPHS_H_

#include "absl/status/status.h"
#include "server/engine/parts.h"

namespace beamwright::engine {

// Which kind of scores a graph gives.
ops::ScoreKind KindOf(v1::LogitsKind kind);

// Compiles the encoder that parts.config describes.
absl::Status CompileEncoder(ops::Graph graph, DecodeModel::Parts& parts);

// Compiles the decoder as the configuration says, and finds where its inputs come from. Errors name
// the field of model.textproto or the layer.
absl::Status CompileDecoder(ops::Graph graph, DecodeModel::Parts& parts);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_COMPILE_GRAPHS_H_
