// The best of a row's scores, while they pass block by block. Nearly all scores of a block are out
// of the question; which ones are is found without branches, since no branch could be predicted.
// Private to kernels/.
#ifndef BEAMWRIGHT_OPS_KERNELS_BEST_SCORES_H_
#define BEAMWRIGHT_OPS_KERNELS_BEST_SCORES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace beamwright::ops {

struct TokenScore {
  float value;
  int32_t token;
  friend bool operator==(const TokenScore&, const TokenScore&) = default;
};

// Brings `best` up to date: the `most` best so far, by value descending (-0 below 0), then token
// ascending.
// values: of tokens `first` and on, no more than kScanBlock (ops/kernels/panel_scan.h) and none of
// them NaN; -infinity is not a score. All tokens of `best` must be lower.
void KeepBest(absl::Span<const float> values, int32_t first, size_t most,
              std::vector<TokenScore>& best);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_BEST_SCORES_H_
