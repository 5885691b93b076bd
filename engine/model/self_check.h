// The self-checks at load. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_SELF_CHECK_H_
#define BEAMWRIGHT_ENGINE_MODEL_SELF_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/model/parts.h"

namespace beamwright::engine {

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

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_SELF_CHECK_H_
