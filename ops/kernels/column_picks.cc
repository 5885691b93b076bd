#include "ops/kernels/column_picks.h"

#include <algorithm>

namespace beamwright::ops {
namespace {

// Each is looked at in search of a list.
constexpr size_t kMostPicks = 256;

}  // namespace

void ColumnPicks::BeginStep() {
  while (num_bytes_ > kMostBytes || picks_.size() > kMostPicks) {
    num_bytes_ -= picks_.back().columns.num_bytes();
    picks_.pop_back();
  }
}

const PackedMatMul& ColumnPicks::Of(const PackedMatMul& weight, absl::Span<const int32_t> tokens) {
  const auto found = std::find_if(picks_.begin(), picks_.end(), [&](const Pick& pick) {
    return pick.weight == &weight && absl::MakeConstSpan(pick.tokens) == tokens;
  });
  if (found != picks_.end()) {
    picks_.splice(picks_.begin(), picks_, found);
  } else {
    picks_.push_front({&weight, {tokens.begin(), tokens.end()}, weight.Pick(tokens)});
    num_bytes_ += picks_.front().columns.num_bytes();
  }
  return picks_.front().columns;
}

}  // namespace beamwright::ops
