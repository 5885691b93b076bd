// The parts of BeamSearch that report:
//
// 1. Collect, CollectOne: after the end, hypotheses made of the paths that GatherTree found.
// 2. Cut: a deadline or a shutdown ends the search early. Rows that may be cut enter the lists
//    behind the complete hypotheses.
// 3. ListHeads, MayEnter: during the search, which paths may still become answers. A live row
//    cannot if the list is full and its bound is below the worst entry.
// 4. StableTokens: the tokens that all these paths share. They can no longer change and are sent to
//    the caller of a stream (Update). BestTokensSoFar: the best path as it is now.
// 5. StartTrace, EndTrace, FinishTrace: what the trace records of each step.

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "engine/search/beam_search.h"
#include "ops/base/status.h"

namespace beamwright::search {

// The part of BeamSearch that makes hypotheses of paths.

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

// The part of BeamSearch that lists, before its end, what the answer may become.

bool BeamSearch::Cut(FinishReason reason) {
  const bool is_random = options_.sampling.kind == Sampling::kRandom;
  std::vector<NBestList> cut;
  for (const List& list : lists_) {
    cut.emplace_back(list.best.capacity(), /*first_slot=*/0);
  }
  bool any = num_finished_ > 0;
  for (size_t row = 0; !done_ && num_generated() > 0 && row < choice_.living.size(); ++row) {
    if (rows_[row].done || !pipeline_.MayBeCut(static_cast<int>(row))) {
      continue;
    }
    any = true;
    const Pair& pair = choice_.living[row];
    const ListEntry entry = MakeEntry(pair, reason);
    const bool is_listed = entry.score >= options_.score_threshold;
    if (trace_ != nullptr) {
      trace_->SetFate(entry.traced, is_listed ? Fate::kNotListed : Fate::kScoreThreshold);
    }
    if (is_listed) {
      const size_t list = lists_.size() == 1 ? 0 : static_cast<size_t>(pair.group);
      NBestList& into = is_random ? lists_[list].best : cut[list];
      into.Enter(pair, entry, static_cast<int>(row), history_);
    }
  }
  if (done_ || !any) {
    return false;
  }
  for (size_t i = 0; i < lists_.size(); ++i) {
    lists_[i].best.Append(cut[i]);
  }
  End();
  return true;
}

bool BeamSearch::MayEnter(const List& list, const LiveRow& row) const {
  // What is cut has other lengths than the bound knows, and is listed otherwise.
  if (!list.best.full() || options_.may_be_cut || num_generated() <= 0 ||
      options_.sampling.kind == Sampling::kRandom) {
    return true;
  }
  const double bound = options_.sampling.kind == Sampling::kWithoutReplacement
                           ? row.rank
                           : scores_.Bound(row.sum + row.reward + row.fused, num_generated());
  return list.best.entries().back().score < bound;
}

void BeamSearch::ListHeads(std::vector<Head>& heads) const {
  heads.clear();
  const bool is_random = options_.sampling.kind == Sampling::kRandom;
  for (const List& list : lists_) {
    for (const ListEntry& entry : list.best.entries()) {
      heads.push_back({entry.slot, entry.length, is_random ? static_cast<int>(-entry.key) : 0,
                       entry.key, false});
    }
  }
  for (size_t row = 0; row < rows_.size(); ++row) {
    const List& list =
        lists_[lists_.size() == 1 ? 0 : static_cast<size_t>(std::max(rows_[row].group, 0))];
    if (history_.num_steps() > 0 && !rows_[row].done && MayEnter(list, rows_[row])) {
      heads.push_back(
          {static_cast<int>(row), history_.num_steps(), is_random ? rows_[row].sample : 0,
           num_generated() > 0 ? MakeEntry(choice_.living[row], FinishReason::kLength).key : 0,
           true});
    }
  }
}

// The part of BeamSearch that records in its trace what the strategies do not.

void BeamSearch::StartTrace() {
  std::vector<TracedRow> rows;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const LiveRow& row = rows_[r];
    const double offset =
        pipeline_.gives_rewards() ? pipeline_.RankOffset(static_cast<int>(r)) : 0.0;
    rows.push_back({.parent = parents_[r],
                    .token = tokens_[r],
                    .sum = row.sum,
                    .reward = row.reward,
                    .fused = row.fused,
                    .offset = offset,
                    .group = std::max(row.group, 0)});
  }
  trace_->StartStep(std::move(rows));
}

// What no strategy takes, because it is not open or its alternative is complete.
void BeamSearch::EndTrace(const Step& step) {
  if (num_generated() < 0 || options_.sampling.kind == Sampling::kRandom) {
    trace_->EndStep(static_cast<int>(choice_.living.size() + choice_.finishing.size()));
    return;
  }
  int num_candidates = 0;
  for (size_t r = 0; r < step.candidates().size(); ++r) {
    const RowCandidates& row = step.candidates()[r];
    // Of the row that all groups start from each takes its own.
    const int num_takers = rows_[r].group < 0 ? options_.num_groups : 1;
    for (size_t i = 0; i < row.tokens.size(); ++i) {
      num_candidates += step.IsOpen(r, i) ? num_takers : 1;
      if (row.log_probs[i] == kImpossible || RankScore(row, i) == kImpossible) {
        trace_->NoteClosed(step.MakePair(r, i), Fate::kNoProbability);
      } else if (rows_[r].done) {
        trace_->NoteClosed(step.MakePair(r, i), Fate::kAlternativeDone);
      } else if (!step.IsOpen(r, i)) {
        trace_->NoteClosed(step.MakePair(r, i), Fate::kEndThreshold);
      }
    }
  }
  trace_->EndStep(num_candidates);
}

void BeamSearch::FinishTrace() {
  std::vector<int> answers;
  for (const List& list : lists_) {
    for (const ListEntry& entry : list.best.entries()) {
      answers.push_back(entry.traced);
    }
  }
  trace_->Finish(answers);
}

// Example: paths 5 7 8 and 5 7 9 (alive), and 5 7 2 (complete, 2 is an end token): all agree on 5
// 7, which is stable from now on.
std::vector<int32_t> StableTokens::CommonTokens(const SlotHistory& history,
                                                const std::vector<BeamSearch::Head>& heads,
                                                int sample, int known) {
  // Walks all paths back together, the longest first; a step where they disagree undoes what was
  // common behind it. So does the last step of a path that others outlast: it chose an end token
  // there, and they did not.
  int last = 0;
  for (const BeamSearch::Head& head : heads) {
    if (head.sample == sample) {
      last = std::max(last, head.length);
    }
  }
  std::vector<int> slots;
  std::vector<int32_t> backwards;
  for (int step = last - 1; step >= known; --step) {
    for (int& slot : slots) {
      slot = history.slot_parent(step + 1, slot);
    }
    for (const BeamSearch::Head& head : heads) {
      if (head.sample == sample && head.length == step + 1) {
        slots.push_back(head.slot);
      }
    }
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    const int32_t token = history.token(step, slots.front());
    const bool is_common = std::all_of(
        slots.begin(), slots.end(), [&](int slot) { return history.token(step, slot) == token; });
    if (is_common) {
      backwards.push_back(token);
    } else {
      backwards.clear();
    }
  }
  return {backwards.rbegin(), backwards.rend()};
}

std::vector<StableTokens::Piece> StableTokens::Update(const BeamSearch& search) {
  search.ListHeads(heads_);
  std::vector<Piece> pieces;
  size_t num_samples = 0;
  for (const BeamSearch::Head& head : heads_) {
    num_samples = std::max(num_samples, static_cast<size_t>(head.sample) + 1);
  }
  num_stable_.resize(std::max(num_stable_.size(), num_samples), 0);
  for (size_t sample = 0; sample < num_samples; ++sample) {
    int& known = num_stable_[sample];
    Piece piece{static_cast<int>(sample), known, {}};
    piece.tokens = CommonTokens(search.history(), heads_, piece.sample, known);
    if (!piece.tokens.empty()) {
      known += static_cast<int>(piece.tokens.size());
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

// From the best head back to the first token, by the parents of slots.
std::vector<int32_t> BestTokensSoFar(const BeamSearch& search, BeamSearch::Head& best) {
  std::vector<BeamSearch::Head> heads;
  search.ListHeads(heads);
  best = {};
  for (const BeamSearch::Head& head : heads) {
    if (best.length == 0 || head.key > best.key) {
      best = head;
    }
  }
  std::vector<int32_t> tokens(static_cast<size_t>(best.length));
  int slot = best.slot;
  for (int step = best.length - 1; step >= 0; --step) {
    tokens[static_cast<size_t>(step)] = search.history().token(step, slot);
    slot = search.history().slot_parent(step, slot);
  }
  return tokens;
}

}  // namespace beamwright::search
