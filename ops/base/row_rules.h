// RowRules: what a request's options ask of one row's scores in one step, as plain data. The scan
// over the logits applies them, so constraints, penalties, shortlists and scoring need no code in
// the kernel.
//
// Order, per token: the logit x; sparse edits (in their order); ban and allowed set (x =
// -infinity); temperature (x / T). The log-sum-exp is taken over these values, so log-probabilities
// are renormalised over what is allowed; with renormalize false it is taken before, over all that
// is not excluded, and what the edits and the temperature make of the log-probabilities is the
// answer; with temperature_first besides, it is taken over all x / T, and edits, bans and the
// allowed set change what they bar alone. Then the rank bonus and what other scorers add (`added`)
// are added: they move a token's rank, not its log-probability. A draw replaces the choice of the
// best by chance.
#ifndef BEAMWRIGHT_OPS_BASE_ROW_RULES_H_
#define BEAMWRIGHT_OPS_BASE_ROW_RULES_H_

#include <cstdint>

#include "absl/types/span.h"

namespace beamwright {

enum class EditKind : uint8_t {
  kAdd,          // x + value
  kScaleBySign,  // x < 0 ? x * value : x / value (the repetition penalty's form)
  kBan,          // -infinity; value unused
  kExclude,      // the same, and no share in any log-sum-exp: padding, which the model never means
};

struct LogitEdit {
  int32_t token = 0;
  EditKind kind = EditKind::kAdd;
  float value = 0;
};

// The token's rank score: log(exp(log_prob) + mass) + value.
struct RankBonus {
  int32_t token = 0;
  float value = 0;
  float mass = 0;  // >= 0
};

enum class DrawKind : uint8_t {
  kNone,    // the best tokens
  kSample,  // tokens drawn from the distribution, with replacement
  kGumbel,  // the best tokens after Gumbel(0, 1) noise was added to each log-probability
};

// What chance decides, reproducibly: the noise is a function of these numbers (ops/base/philox.h)
// and, for kGumbel, the token.
struct RowDraw {
  DrawKind kind = DrawKind::kNone;
  uint64_t seed = 0;
  uint32_t position = 0;  // of the token in its hypothesis
  uint32_t stream = 0;    // of the sample, or the row
  int count = 1;          // kSample: draws, with streams `stream`, `stream` + 1, ...
  int top_k = 0;          // kSample: only the best k; 0: all
  float top_p = 1;  // kSample: of these, best first, while the mass before a token is below it
  float min_p = 0;  // kSample: of these, with at least this multiple of the best's probability
};

// Views: what they point at must live until the scan of the step returns. All empty: no rule, no
// cost.
struct RowRules {
  absl::Span<const LogitEdit> edits;    // any order; several for one token apply in order
  bool has_allowed = false;             // true: only `allowed` may be chosen (empty: nothing may)
  absl::Span<const int32_t> allowed;    // ascending token ids
  float temperature = 1;                // > 0
  absl::Span<const RankBonus> bonuses;  // at most one per token
  absl::Span<const int32_t> watched;  // tokens whose log-probability is wanted whatever their rank
  bool renormalize = true;
  bool temperature_first = false;  // only without renormalize
  RowDraw draw;
  // Empty, or for each token what its rank score gains; -infinity bars it. Not with a draw.
  absl::Span<const float> added;

  bool empty() const {
    return edits.empty() && !has_allowed && temperature == 1 && bonuses.empty() && added.empty() &&
           watched.empty() && draw.kind == DrawKind::kNone;
  }
};

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_ROW_RULES_H_
