// Products and scans of the columns of a list of tokens, as a shortlist asks for them.
#ifndef BEAMWRIGHT_OPS_KERNELS_COLUMN_PICKS_H_
#define BEAMWRIGHT_OPS_KERNELS_COLUMN_PICKS_H_

#include <cstdint>
#include <list>
#include <vector>

#include "absl/types/span.h"
#include "ops/base/row_rules.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/kernels/topk.h"

namespace beamwright::ops {

// ColumnPicks: columns of a product's weight for lists of tokens that return in every step, as the
// shortlist of a request does. A product with the columns of a list costs what the list has, not
// what the vocabulary has.

// One thread at a time. The weights must live as long as this object.
class ColumnPicks {
 public:
  // Lists of more tokens than 1 / kLeastShare of the vocabulary are not worth a pick.
  static constexpr int64_t kLeastShare = 8;
  // The most bytes of columns that are held.
  static constexpr size_t kMostBytes = size_t{32} << 20;

  // A new step: drops the columns of lists that the last kIdleSteps steps did not use.
  void BeginStep();
  // The weight's columns `tokens`, in their order; valid until the next BeginStep. A list is
  // recognised by its tokens, not by its address. Null: the columns of other lists fill kMostBytes;
  // the caller multiplies by the whole weight, with the same bits.
  const PackedMatMul* Of(const PackedMatMul& weight, absl::Span<const int32_t> tokens);

  size_t num_bytes() const { return num_bytes_; }

 private:
  static constexpr int64_t kIdleSteps = 4;

  struct Pick {
    const PackedMatMul* weight;
    std::vector<int32_t> tokens;
    PackedMatMul columns;
    int64_t last_step;
  };

  std::list<Pick> picks_;  // the most recently used first
  int64_t step_ = 0;
  size_t num_bytes_ = 0;
};

// The scan of a row of which only the scores of a list of tokens are known and all others are
// barred, as with a shortlist.

// What ScanRow (ops/kernels/topk.h) finds in a row of `vocabulary` logits, -infinity but for those
// of `tokens`, bit for bit, at the cost of the list. tokens: ascending; values: their logits, which
// the rules' bans change; rules.has_allowed is not looked at. False, and nothing is found: the
// rules are more than bans and watched tokens, or a value is no number; ScanRow says the rest.
bool ScanListed(absl::Span<const int32_t> tokens, absl::Span<float> values, int64_t vocabulary,
                const RowRules& rules, int k, RowScan& result);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_COLUMN_PICKS_H_
