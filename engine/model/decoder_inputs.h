// Where what a decoder reads of a request comes from: the encoder, a constant, lengths, the caller.
// Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_DECODER_INPUTS_H_
#define BEAMWRIGHT_ENGINE_MODEL_DECODER_INPUTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/model/parts.h"

namespace beamwright::engine {

// Fills decoder.inputs, for every Parameter of its graph but the token's, as the configuration
// says. InvalidArgument, with all that is wrong, if the encoder has no output of a name, one of
// another type or shape than the decoder reads, or the configuration names an input that the
// decoder does not have.
absl::Status FindDecoderInputs(const v1::DecoderConfig& config, DecoderPart& decoder);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_DECODER_INPUTS_H_
