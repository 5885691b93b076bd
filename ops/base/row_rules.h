// RowRules: what a request's options ask of one row's scores in one step, as plain data. The scan
// over the logits applies them, so constraints, penalties, shortlists and scoring need no code in
// the kernel.
//
// Order, per token: the logit x; sparse edits (in their order); ban and allowed set (x =
// -infinity); temperature (x / T). The log-sum-exp is taken over these values, so log-probabilities
// are renormalised over what is allowed. Then the rank bonus is added: it moves a token's rank, not
// its log-probability.
#ifndef BEAMWRIGHT_OPS_BASE_ROW_RULES_H_
#define BEAMWRIGHT_OPS_BASE_ROW_RULES_H_

#include <cstdint>

#include "absl/types/span.h"

namespace beamwright {

enum class EditKind : uint8_t {
  kAdd,          // x + value
  kScaleBySign,  // x < 0 ? x * value : x / value (the repetition penalty's form)
  kBan,          // -infinity; value unused
};

struct LogitEdit {
  int32_t token = 0;
  EditKind kind = EditKind::kAdd;
  float value = 0;
};

struct RankBonus {
  int32_t token = 0;
  float value = 0;
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

  bool empty() const {
    return edits.empty() && !has_allowed && temperature == 1 && bonuses.empty() && watched.empty();
  }
};

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_ROW_RULES_H_
