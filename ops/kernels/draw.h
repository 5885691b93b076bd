// DrawTokens: chance in place of the best tokens, as RowRules::draw asks. Private to ScanRow
// (topk.h), which applies the rules and takes the log-sum-exp first.
#ifndef BEAMWRIGHT_OPS_KERNELS_DRAW_H_
#define BEAMWRIGHT_OPS_KERNELS_DRAW_H_

#include "absl/types/span.h"
#include "ops/base/row_rules.h"
#include "ops/kernels/topk.h"

namespace beamwright::ops {

// values: after the rules; log-probability = value - result.log_sum_exp. Sets result.best:
//   kSample: draw.count tokens, one a draw, in the order of draws; a token may come again. top_k
//     keeps the k best (ties: lower token); then top_p, by mass of what top_k left; then min_p.
//     Their probabilities are renormalised and one uniform number chooses. rank_score = log_prob,
//     which is that before the three.
//   kGumbel: the k tokens with the largest log_prob + noise, which is their rank_score, best first
//     (ties: lower token). With k tokens this is a sample without replacement (Kool, van Hoof,
//     Welling, "Stochastic beams and where to find them", ICML 2019).
// Empty if no token has a value above -infinity.
void DrawTokens(absl::Span<const float> values, const RowDraw& draw, int k, RowScan& result);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_DRAW_H_
