// Rows of scores as log-probabilities, and several such rows as one: what a search needs of
// ensembles and language models before it scans a row (ops/kernels/topk.h).
#ifndef BEAMWRIGHT_OPS_KERNELS_MIX_SCORES_H_
#define BEAMWRIGHT_OPS_KERNELS_MIX_SCORES_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/kernels/topk.h"

namespace beamwright::ops {

// log_probs = the natural-log probabilities that `scores` are, in f32: logits less their
// log-sum-exp, log-probabilities as they are, logarithms of probabilities. InvalidArgument naming
// the token: a score is NaN, +infinity, or none of its kind. `log_probs` is as long as `scores`.
// shift, if not null: what was taken off each; 0 unless they are logits.
absl::Status ToLogProbs(absl::Span<const float> scores, ScoreKind kind, absl::Span<float> log_probs,
                        float* shift = nullptr);

enum class MixKind {
  kLogProbs,  // sum of weight * log-probability
  kProbs,     // log(sum of weight * probability)
};

struct MixPart {
  absl::Span<const float> scores;
  ScoreKind kind = ScoreKind::kLogits;
  float weight = 1;  // > 0
  float shift = 0;   // set by MixScores: as of ToLogProbs
};

// One row of logits out of several rows of equal length; in f32, in the order of `parts`. scratch
// is kept by the caller, so that steady steps allocate nothing. Errors as ToLogProbs, naming the
// part.
absl::Status MixScores(absl::Span<MixPart> parts, MixKind kind, std::vector<float>& scratch,
                       std::vector<float>& logits);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_MIX_SCORES_H_
