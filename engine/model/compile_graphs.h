// The steps of DecodeModel::Compile over a bundle's graphs: encoder and decoder, models without a
// decoder, what a model has besides, and what the self-checks try. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_COMPILE_GRAPHS_H_
#define BEAMWRIGHT_ENGINE_MODEL_COMPILE_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "beamwright/v1/model.pb.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/text_codec.h"
#include "engine/model/parts.h"
#include "engine/picture/front_end.h"
#include "ops/graph/graph.h"

namespace beamwright::engine {

// A bundle's graphs, compiled: what of them is the encoder and the decoder.

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

// Compiles what a bundle without a decoder is searched by: a CTC output of its encoder, or a
// transducer's predictor and joiner.

// `parts`: with the own encoder, if there is one. Takes the graphs out of the bundle. Errors name
// the field of model.textproto, or the graph and its layer.
absl::StatusOr<std::unique_ptr<FramesPart>> CompileFrames(bundle::Bundle& bundle,
                                                          const DecodeModel::Parts& parts);

// The graphs besides a model's encoder and decoder: members of an ensemble, scorers, the
// lexical table.

// Compiles what bundle.config names into `parts`, whose own encoder and decoder are there. Errors
// name the field of model.textproto, or file and line.
absl::Status CompileFusion(bundle::Bundle& bundle, DecodeModel::Parts& parts);

// The longest source that an encoder's tables of positions hold.

// Inference of shapes with the source's length given fails where a constant table that the encoder
// gathers from or slices is too short. Tries the extents of these tables, up to 8,192.
// parameter: index of the one that takes the source. Returns 0 if no length fails, if nearly all
// do, or if longer ones work again. Positions computed from the tokens' values are not found.
int64_t LongestSource(const ops::Graph& graph, int parameter, int length_axis);

// What a model is, in 32 bytes: states that one model made are read by no other.

// SHA-256 of the graph as it was imported, with all constants, of what model.textproto says of it,
// and of what each token of the vocabulary writes.
std::string Fingerprint(const ops::Graph& decoder, const v1::DecoderConfig& config,
                        const bundle::TextCodec& target);

// Sources that a model is tried with before it serves.

// Their lengths: short, and, where the encoder fails on that, longer, since convolutions may need
// more positions than one. Beyond kLongestTrial only sound is tried, samples being many and narrow.
inline constexpr int kTrialLengths[] = {5, 250, 1000, 4000, 16000};
inline constexpr int kLongestTrial = 1000;

// The self-checks at load.

// `context`: of what the checks compute.

// Sources encoded together must give the bits that they give alone; where they do not,
// encoder.apart says why, or, where it is because of unequal lengths, encoder.proof.lengths. Fills
// encoder.trial_length. num_tokens: of the source vocabulary; 0: it has none. An error if the
// encoder fails on random sources.
absl::Status SelfCheck(const ops::ExecutionContext& context, EncoderPart& encoder, int num_tokens);

// Whether the encoder fails on a random source of this length.
bool FailsOn(const ops::ExecutionContext& context, const EncoderPart& encoder, int64_t length,
             int num_tokens);

// The same for rows stacked, which fall back to one at a time, also where a step fails.
void SelfCheck(const ops::ExecutionContext& context, DecoderPart& decoder, int num_tokens);

// Fills decoder.most_steps, by steps on states of zeros; 0 where the first step fails.
void FindMostSteps(const ops::ExecutionContext& context, DecoderPart& decoder, int num_tokens);

// How a picture becomes what a model's encoder reads.

// The input that the bundle's `picture` asks for, its open fields set from the encoder's input.
// Nothing without it. InvalidArgument naming the field that is wrong, or if the encoder does not
// read pictures.
absl::StatusOr<std::optional<picture::FrontEnd>> CompilePicture(const v1::ModelConfig& config,
                                                                const EncoderPart* encoder);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_COMPILE_GRAPHS_H_
