// ColumnPicks: columns of a product's weight for lists of tokens that come back step after step, as
// the shortlist of a request does. A product with them costs what the list has, not what the
// vocabulary has. Private to ops/kernels/.
#ifndef BEAMWRIGHT_OPS_KERNELS_COLUMN_PICKS_H_
#define BEAMWRIGHT_OPS_KERNELS_COLUMN_PICKS_H_

#include <cstdint>
#include <list>
#include <vector>

#include "absl/types/span.h"
#include "ops/kernels/packed_matmul.h"

namespace beamwright::ops {

// One thread at a time.
class ColumnPicks {
 public:
  // Lists of more tokens than 1 / kLeastShare of the vocabulary are not worth a pick.
  static constexpr int64_t kLeastShare = 8;

  // A new step: picks that the last steps did not ask for go, oldest first, while all together hold
  // more than kMostBytes.
  void BeginStep();
  // The weight's columns `tokens`, in their order; valid until the next BeginStep. A pick is found
  // again by the tokens themselves, not by where they lie.
  const PackedMatMul& Of(const PackedMatMul& weight, absl::Span<const int32_t> tokens);

 private:
  static constexpr size_t kMostBytes = size_t{32} << 20;

  struct Pick {
    const PackedMatMul* weight;
    std::vector<int32_t> tokens;
    PackedMatMul columns;
  };

  std::list<Pick> picks_;  // the last one asked for first
  size_t num_bytes_ = 0;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_COLUMN_PICKS_H_
