// ScanRow: the best tokens of one row of scores under a request's RowRules (ops/base/row_rules.h),
// with their log-probabilities. One scan a row a step: validation, rules, log-sum-exp, selection.
#ifndef BEAMWRIGHT_OPS_KERNELS_TOPK_H_
#define BEAMWRIGHT_OPS_KERNELS_TOPK_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/base/row_rules.h"

namespace beamwright::ops {

// What a model's scores are.
enum class ScoreKind {
  kLogits,         // any finite number or -infinity
  kLogProbs,       // logarithms of probabilities: at most 0 (up to 0.01 is rounding, cut to 0)
  kProbabilities,  // in [0, 1] (up to 1.01 is rounding); their logarithm is taken first
};

struct Candidate {
  int32_t token = 0;
  float log_prob = 0;    // of the renormalised distribution
  float rank_score = 0;  // log_prob with the token's rank bonus and what is added, or its noise
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// A row's answer, and the buffers that finding it needs: keep one per row or thread and reuse it,
// so that steady steps allocate nothing.
struct RowScan {
  std::vector<Candidate> best;  // best first
  std::vector<float> watched;   // log-probability of each of rules.watched, in that order
  // Of the scores after the rules (less their largest, where f32 can't hold them); 0 where none was
  // needed.
  float log_sum_exp = 0;
  std::vector<float> values;         // scratch
  std::vector<float> block_maxima;   // scratch
  std::vector<float> ranks;          // scratch
  std::vector<Candidate> bonus_set;  // scratch, of draws too
};

// Finds the at most k best tokens: rank score descending, ties by lower token id; or what
// rules.draw asks for. A token whose
// value is -infinity (banned, not allowed, or given so by the model) is never among them, so there
// may be fewer than k, or none.
//
// log_prob = value - log-sum-exp in f32; the log-sum-exp is taken over all values after the rules
// in an order that follows from the number of scores alone, and is at least the largest value, so
// no log-probability is above 0. kLogProbs and kProbabilities are taken as they are (log_sum_exp 0)
// unless edits, an allowed set or a temperature change them and renormalisation is wanted, or a
// token is excluded.
//
// Finite scores stay finite under the rules, whatever their size: where edits or a temperature
// drive the row's largest beyond f32, the rules are applied in f64.
//
// With rules.added a token's rank score is log_prob + added, in f32; a bonus comes before.
//
// InvalidArgument naming the token: a score is NaN or +infinity (also after a rule that makes it
// so), is not a probability, or a rule names a token outside [0, scores.size()); rules.added has
// another size or is NaN or +infinity somewhere. k >= 0, temperature > 0.
absl::Status ScanRow(absl::Span<const float> scores, ScoreKind kind, const RowRules& rules, int k,
                     RowScan& result);

// DrawTokens: chance in place of the best tokens, as RowRules::draw asks. Private to ScanRow, which
// applies the rules and takes the log-sum-exp first.

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

#endif  // BEAMWRIGHT_OPS_KERNELS_TOPK_H_
