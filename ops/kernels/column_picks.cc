#include "ops/kernels/column_picks.h"

#include <algorithm>

namespace beamwright::ops {

void ColumnPicks::BeginStep() {
  ++step_;
  while (!picks_.empty() && picks_.back().last_step + kIdleSteps < step_) {
    num_bytes_ -= picks_.back().columns.num_bytes();
    picks_.pop_back();
  }
}

const PackedMatMul* ColumnPicks::Of(const PackedMatMul& weight, absl::Span<const int32_t> tokens) {
  const auto found = std::find_if(picks_.begin(), picks_.end(), [&](const Pick& pick) {
    return pick.weight == &weight && absl::MakeConstSpan(pick.tokens) == tokens;
  });
  if (found != picks_.end()) {
    picks_.splice(picks_.begin(), picks_, found);
  } else {
    if (num_bytes_ >= kMostBytes) {
      return nullptr;
    }
    picks_.push_front({&weight, {tokens.begin(), tokens.end()}, weight.Pick(tokens), step_});
    num_bytes_ += picks_.front().columns.num_bytes();
  }
  picks_.front().last_step = step_;
  return &picks_.front().columns;
}

}  // namespace beamwright::ops
