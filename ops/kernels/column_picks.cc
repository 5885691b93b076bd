#include "ops/kernels/column_picks.h"

#include <algorithm>
#include <limits>

#include "ops/kernels/panel_scan.h"

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

// Searches a row of which only some columns were computed, as for a shortlist (ScanListed): the
// other tokens count as -infinity. It gives the same bits as a scan of the full row would, since
// sums are taken in the same panels (SumAll).
//
// 1. IsSimple: only rows with plain rules are handled. For others the function returns false, and
//    the caller scans a full row.
// 2. Maxima of blocks are taken, bans are applied, and the log-sum is computed.
// 3. TakeBest keeps the k best, and skips blocks whose maximum cannot enter the list. Watched
//    tokens get their log-probability.

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kBlock = kScanBlock;

bool IsSimple(const RowRules& rules, int k, int64_t vocabulary) {
  const auto outside = [vocabulary](int32_t token) { return token < 0 || token >= vocabulary; };
  return k >= 0 && rules.renormalize && rules.temperature == 1.0f && rules.bonuses.empty() &&
         rules.added.empty() && rules.draw.kind == DrawKind::kNone &&
         std::all_of(rules.edits.begin(), rules.edits.end(),
                     [&](const LogitEdit& edit) { return Bars(edit) && !outside(edit.token); }) &&
         std::none_of(rules.watched.begin(), rules.watched.end(), outside);
}

// The token's place in the list; its size if it is not in there.
size_t PlaceOf(absl::Span<const int32_t> tokens, int32_t token) {
  const auto found = std::lower_bound(tokens.begin(), tokens.end(), token);
  return found != tokens.end() && *found == token ? static_cast<size_t>(found - tokens.begin())
                                                  : tokens.size();
}

float SumAll(absl::Span<const int32_t> tokens, absl::Span<const float> values) {
  PanelJoin join;
  for (size_t first = 0; first < tokens.size();) {
    const int64_t panel = tokens[first] / kScanPanel;
    size_t end = first;
    float largest = -kInfinity;
    for (; end < tokens.size() && tokens[end] / kScanPanel == panel; ++end) {
      largest = std::max(largest, values[end]);
    }
    join.Add(
        SumPicked(tokens.subspan(first, end - first), values.subspan(first, end - first), largest));
    first = end;
  }
  return join.LogSumExp();
}

// The k best by log-probability, ties by lower token.
void TakeBest(absl::Span<const int32_t> tokens, absl::Span<const float> values, size_t k,
              RowScan& result) {
  std::vector<Candidate>& best = result.best;
  for (size_t first = 0; k > 0 && first < values.size(); first += kBlock) {
    const float most = result.block_maxima[first / kBlock] - result.log_sum_exp;
    if (best.size() == k && !(most > best.back().rank_score)) {
      continue;  // equal ones of higher tokens come after those in the list
    }
    for (size_t i = first; i < std::min(first + kBlock, values.size()); ++i) {
      const float rank = values[i] - result.log_sum_exp;
      if (values[i] == -kInfinity || (best.size() == k && !(rank > best.back().rank_score))) {
        continue;
      }
      if (best.size() == k) {
        best.pop_back();
      }
      const auto at = std::upper_bound(
          best.begin(), best.end(), rank,
          [](float score, const Candidate& other) { return score > other.rank_score; });
      best.insert(at, {tokens[i], rank, rank});
    }
  }
}

}  // namespace

bool ScanListed(absl::Span<const int32_t> tokens, absl::Span<float> values, int64_t vocabulary,
                const RowRules& rules, int k, RowScan& result) {
  if (!IsSimple(rules, k, vocabulary)) {
    return false;
  }
  result.block_maxima.resize((values.size() + kBlock - 1) / kBlock);
  BlockMaxima(values, result.block_maxima.data());  // before bans hide a value that is no number
  if (std::find(result.block_maxima.begin(), result.block_maxima.end(), kInfinity) !=
      result.block_maxima.end()) {
    return false;
  }
  for (const LogitEdit& edit : rules.edits) {
    if (const size_t at = PlaceOf(tokens, edit.token); at < tokens.size()) {
      values[at] = -kInfinity;
      const size_t first = at / kBlock * kBlock;
      BlockMaxima(values.subspan(first, kBlock), &result.block_maxima[at / kBlock]);
    }
  }
  result.log_sum_exp = SumAll(tokens, values);
  if (result.log_sum_exp == -kInfinity) {
    return false;  // all are barred
  }
  result.best.clear();
  result.watched.clear();
  TakeBest(tokens, values, static_cast<size_t>(k), result);
  for (const int32_t token : rules.watched) {
    const size_t at = PlaceOf(tokens, token);
    const float value = at < tokens.size() ? values[at] : -kInfinity;
    result.watched.push_back(value == -kInfinity ? value : value - result.log_sum_exp);
  }
  return true;
}

}  // namespace beamwright::ops
