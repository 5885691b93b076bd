// Golden requests: a bundle may bring requests with their answers (golden.jsonl, docs/bundle.md),
// and a model that answers them otherwise than its maker saw is not fit to serve.
#ifndef BEAMWRIGHT_ENGINE_GOLDEN_H_
#define BEAMWRIGHT_ENGINE_GOLDEN_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "engine/model/decode_model.h"

namespace beamwright::engine {

// Decodes at most `max_requests` of the file's requests, spread over it, together, on one thread of
// its own, and compares the best hypotheses. In the numerics class that a line records every token
// and score must be equal; in another one the tokens, unless the line's own best two are nearer to
// each other than rounding reaches. InvalidArgument for a bad line; FailedPrecondition
// naming the first line that is answered otherwise, and how many are. interruption: of the
// decoding; may be null.
absl::Status ReplayGolden(const std::shared_ptr<const DecodeModel>& model,
                          const std::string& content, int max_requests,
                          const Interruption* interruption = nullptr);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_GOLDEN_H_
