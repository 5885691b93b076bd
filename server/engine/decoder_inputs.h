// Where what a decoder reads of a request comes from: the encoder, a constant, lengths, the caller.
// Private to engine/.
#ifndef BEAMWRIGHT_SERVER_ENGINE_DECODER_INPUTS_H_
#define BEAMWRIGHT_SERVER_ENGINE_DECODER_INPUTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/engine/parts.h"

namespace beamwright::engine {

// Fills parts.inputs, for every Parameter of the decoder graph but the token's, as the
// configuration says. InvalidArgument if the encoder has no
// output of a name, or the configuration names an input that there is not.
absl::Status FindDecoderInputs(DecodeModel::Parts& parts);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_DECODER_INPUTS_H_
