// A bundle's graphs, compiled: what of them is the encoder and the decoder. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_COMPILE_GRAPHS_H_
#define BEAMWRIGHT_ENGINE_MODEL_COMPILE_GRAPHS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/parts.h"

namespace beamwright::engine {

// Which kind of scores a graph gives.
ops::ScoreKind KindOf(v1::LogitsKind kind);

// `model` has its texts, precision and options; its limits are lowered to the sources that the
// encoder's tables of positions hold.
absl::StatusOr<std::unique_ptr<EncoderPart>> CompileEncoder(ops::Graph graph,
                                                            const v1::EncoderConfig& config,
                                                            DecodeModel::Parts& model);

// Compiles a decoder as the configuration says, and finds where its inputs come from. encoder: null
// if it reads none. Errors name the field of model.textproto or the layer.
absl::StatusOr<std::unique_ptr<DecoderPart>> CompileDecoder(
    ops::Graph graph, const v1::DecoderConfig& config, const DecodeModel::Parts& model,
    std::shared_ptr<const EncoderPart> encoder);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_COMPILE_GRAPHS_H_
