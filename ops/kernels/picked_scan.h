// The scan of a row of which only the scores of a list of tokens are known and all others are
// barred, as with a shortlist. Private to kernels/.
#ifndef BEAMWRIGHT_OPS_KERNELS_PICKED_SCAN_H_
#define BEAMWRIGHT_OPS_KERNELS_PICKED_SCAN_H_

#include <cstdint>

#include "absl/types/span.h"
#include "ops/base/row_rules.h"
#include "ops/kernels/topk.h"

namespace beamwright::ops {

// What ScanRow (ops/kernels/topk.h) finds in a row of `vocabulary` logits, -infinity but for those
// of `tokens`, bit for bit, at the cost of the list. tokens: ascending; values: their logits, which
// the rules' bans change; rules.has_allowed is not looked at. False, and nothing is found: the
// rules are more than bans and watched tokens, or a value is no number; ScanRow says the rest.
bool ScanListed(absl::Span<const int32_t> tokens, absl::Span<float> values, int64_t vocabulary,
                const RowRules& rules, int k, RowScan& result);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_PICKED_SCAN_H_
