// The part of BeamSearch that makes hypotheses of paths.
#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "engine/search/beam_search.h"
#include "ops/base/status.h"

namespace beamwright::search {

absl::StatusOr<std::vector<Hypothesis>> BeamSearch::Collect(const SlotPaths& paths) const {
  if (!done_) {
    return absl::FailedPreconditionError("the search is not done");
  }
  const int64_t steps = history_.num_steps();
  if (paths.stride < num_slots() ||
      static_cast<int64_t>(paths.slots.size()) < (steps - 1) * paths.stride + num_slots()) {
    return absl::InternalError(absl::StrCat("paths of ", paths.slots.size(), " elements, stride ",
                                            paths.stride, ", are too small for ", steps,
                                            " steps of ", num_slots(), " slots"));
  }
  std::vector<ListEntry> entries;
  for (const List& list : lists_) {
    entries.insert(entries.end(), list.best.entries().begin(), list.best.entries().end());
  }
  std::vector<Hypothesis> result;
  for (const ListEntry& entry : entries) {
    BW_ASSIGN_OR_RETURN(Hypothesis hypothesis, CollectOne(entry, paths));
    result.push_back(std::move(hypothesis));
  }
  if (lists_.size() > 1) {
    const auto is_cut = [](const Hypothesis& hypothesis) {
      return hypothesis.reason == FinishReason::kDeadline ||
             hypothesis.reason == FinishReason::kShutdown;
    };
    std::sort(result.begin(), result.end(), [&](const Hypothesis& a, const Hypothesis& b) {
      return std::make_tuple(is_cut(a), -a.score, a.tokens.size(), std::cref(a.tokens)) <
             std::make_tuple(is_cut(b), -b.score, b.tokens.size(), std::cref(b.tokens));
    });
  }
  return result;
}

absl::StatusOr<Hypothesis> BeamSearch::CollectOne(const ListEntry& entry,
                                                  const SlotPaths& paths) const {
  Hypothesis hypothesis;
  hypothesis.prefix_length = static_cast<int>(options_.constraints.prefix.size());
  hypothesis.prefix_sum = prefix_sum_;
  hypothesis.sum = entry.sum;
  hypothesis.reward = entry.reward;
  hypothesis.coverage = entry.coverage;
  hypothesis.score = entry.score;
  hypothesis.traced = entry.traced;
  hypothesis.reason = entry.reason;
  hypothesis.tokens.reserve(static_cast<size_t>(entry.length));
  hypothesis.token_log_probs.reserve(static_cast<size_t>(entry.length));
  const size_t num_scorers = options_.scorers.size();
  hypothesis.scorer_sums.assign(num_scorers, 0);
  hypothesis.member_sums.assign(static_cast<size_t>(options_.num_members), 0);
  const int scored_from = options_.constraints.score_prefix ? 0 : hypothesis.prefix_length;
  int row = 0;  // that the step's token was chosen from
  for (int step = 0; step < entry.length; ++step) {
    const int slot = paths.slots[static_cast<size_t>(step * paths.stride + entry.slot)];
    if (slot < 0 || slot >= num_slots() || history_.slot_id(step, slot) != slot) {
      return absl::InternalError(absl::StrCat("paths[", step, ", ", entry.slot, "] is ", slot,
                                              ", a slot without a token in that step"));
    }
    hypothesis.rows.push_back(row);
    hypothesis.tokens.push_back(history_.token(step, slot));
    hypothesis.token_log_probs.push_back(history_.log_prob(step, slot));
    for (size_t i = 0; step >= scored_from && i < num_scorers + hypothesis.member_sums.size();
         ++i) {
      double& sum =
          i < num_scorers ? hypothesis.scorer_sums[i] : hypothesis.member_sums[i - num_scorers];
      sum += static_cast<double>(history_.part(step, slot, static_cast<int>(i)));
    }
    if (options_.num_top_tokens > 0) {
      const size_t wanted = static_cast<size_t>(options_.num_top_tokens);
      const auto first =
          top_tokens_.begin() + static_cast<int64_t>(top_starts_[static_cast<size_t>(step)] +
                                                     static_cast<size_t>(row) * wanted);
      std::vector<TopToken>& tops =
          hypothesis.top_tokens.emplace_back(first, first + options_.num_top_tokens);
      while (!tops.empty() && tops.back().token < 0) {
        tops.pop_back();
      }
    }
    row = slot;
  }
  return hypothesis;
}

}  // namespace beamwright::search
