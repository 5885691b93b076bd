// Takes the projection to the vocabulary off a decoder's step, so that the scan of its scores can
// work panel by panel (ops/kernels/vocabulary_projection.h).
#ifndef BEAMWRIGHT_OPS_DECODER_SPLIT_PROJECTION_H_
#define BEAMWRIGHT_OPS_DECODER_SPLIT_PROJECTION_H_

#include <cstdint>
#include <memory>

#include "ops/graph/inference.h"
#include "ops/kernels/topk.h"
#include "ops/kernels/vocabulary_projection.h"

namespace beamwright::ops {

// Logits with more columns than there are tokens. Models are often trained with a number of columns
// that suits their hardware, a multiple of 8 to 128, and leave the last ones without a token.

// Whether the columns beyond `tokens` may be such padding; many would be another vocabulary's.
inline bool ArePadded(int64_t columns, int64_t tokens) {
  const int64_t rest = columns - tokens;
  return tokens > 0 && rest > 0 && rest < 1024 && rest <= tokens / 8 && columns % 8 == 0;
}

// If result `result` of the step `body` is a product with a constant weight, plus a constant bias
// or none, through a softmax or log-softmax that `kind` names or none, with axes of extent 1
// added or not, and nothing else reads what lies between: makes the product's input [rows, ...,
// depth] the result in its place, `kind` what the projection gives (logits), and returns the
// projection. Null, and nothing changed, otherwise. num_tokens: of padded logits
// only the columns of tokens are kept.
std::unique_ptr<const VocabularyProjection> SplitProjection(Graph& body, const GraphInfo& info,
                                                            int result, int64_t num_tokens,
                                                            Precision weights, ScoreKind& kind);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_SPLIT_PROJECTION_H_
