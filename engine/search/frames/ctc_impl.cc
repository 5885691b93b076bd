// A frame of prefix beam search. A live prefix has two sums of alignments, ending with a blank
// and with its last label; a prefix is a node of a tree of labels (label_histories.h).
//
// 1. Each live prefix stays: it reads a blank, or its last label once more (Stay).
// 2. The least rank that can still enter the beam is found from these alone (FindLeastRank):
//    labels that cannot reach it are never looked at.
// 3. Each prefix is extended by labels, best first (ExtendPrefix). An extension that is live
//    already joins that prefix's sum (Join). Where all labels are tried, these joins are looked
//    up from the children instead (JoinAll), since the loop stops early.
// 4. What stays and what was added compete for the beam (Choose).
// 5. Survivors become the live prefixes; nodes and times that nothing refers to are recycled,
//    and rows for scorers are listed (Commit).
#include "engine/search/frames/ctc_impl.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "engine/search/frames/label_histories.h"
#include "engine/search/frames/label_times.h"
#include "engine/search/frames/log_add.h"
#include "engine/search/frames/log_prob_row.h"
#include "ops/base/status.h"

namespace beamwright::search {

absl::Status CtcSearch::Impl::CheckFrame(absl::Span<const float> log_probs,
                                         absl::Span<const FusedRow* const> fused) const {
  if (num_read == num_added) {
    return Invalid("frame ", num_read, " has not been added: there are ", num_added);
  }
  if (fused.size() != (options.scorers.empty() ? 0 : live.size())) {
    return Invalid("frame ", num_read, ": scorers' rows for ", fused.size(), " hypotheses of ",
                   live.size());
  }
  return LogProbRow::Check(options, log_probs, num_read);
}

// By node its place among the live prefixes, and by prefix whether a live one extends it.
void CtcSearch::Impl::IndexLive() {
  live_of.resize(histories.num_ids(), -1);
  for (size_t i = 0; i < live.size(); ++i) {
    live_of[static_cast<size_t>(live[i].node)] = static_cast<int32_t>(i);
  }
  has_live_child.assign(live.size(), 0);
  for (const CtcPrefix& prefix : live) {
    const int32_t parent = histories.parent(prefix.node);
    if (parent >= 0 && IsLive(parent)) {
      has_live_child[static_cast<size_t>(live_of[static_cast<size_t>(parent)])] = 1;
    }
  }
}

// 1.
void CtcSearch::Impl::Stay(const LogProbRow& row) {
  stays.assign(live.size(), {});
  for (size_t i = 0; i < live.size(); ++i) {
    const CtcPrefix& prefix = live[i];
    CtcStay& stay = stays[i];
    stay.blank_from_label = prefix.label.best > prefix.blank.best;
    stay.blank_sum = prefix.mass + row.blank();
    stay.blank_best = std::max(prefix.label.best, prefix.blank.best) + row.blank();
    if (const int32_t last = LastLabel(prefix.node); last >= 0) {
      const double log_prob = row.label(last);
      stay.label_sum = prefix.label.sum + log_prob;
      stay.label_best = prefix.label.best + log_prob;
    }
  }
}

// Label `label` behind a live prefix is live itself.
void CtcSearch::Impl::Join(size_t index, int32_t label, double log_prob, double sum,
                           int32_t child) {
  CtcStay& stay = stays[static_cast<size_t>(live_of[static_cast<size_t>(child)])];
  stay.label_sum = Combine(stay.label_sum, sum);
  const double best = BestBefore(live[index], label).best + log_prob;
  if (best > stay.label_best) {  // of equal alignments the one stays whose label goes on
    stay.label_best = best;
    stay.label_parent = static_cast<int32_t>(index);
  }
}

// Of all live children, where all labels are tried.
void CtcSearch::Impl::JoinAll(const LogProbRow& row) {
  for (const CtcPrefix& child : live) {
    const int32_t parent = histories.parent(child.node);
    if (parent < 0 || !IsLive(parent)) {
      continue;
    }
    const auto index = static_cast<size_t>(live_of[static_cast<size_t>(parent)]);
    const int32_t label = histories.label(child.node);
    const double log_prob = row.label(label);
    const double sum =
        (label == LastLabel(parent) ? live[index].blank.sum : live[index].mass) + log_prob;
    if (sum > kLogZero) {
      Join(index, label, log_prob, sum, child.node);
    }
  }
}

// Live prefixes alone fill the beam, and what they gain besides only lifts them. A little is left
// for rounding.
void CtcSearch::Impl::FindLeastRank() {
  least_rank = kLogZero;
  const auto size = static_cast<size_t>(options.beam_size);
  if (live.size() < size) {
    return;
  }
  ranks.clear();
  for (size_t i = 0; i < live.size(); ++i) {
    ranks.push_back(std::max(stays[i].blank_sum, stays[i].label_sum) +
                    histories.gain(live[i].node));
  }
  std::nth_element(ranks.begin(), ranks.begin() + options.beam_size - 1, ranks.end(),
                   std::greater<>());
  least_rank = ranks[size - 1] - 1e-6 * (1 + std::abs(ranks[size - 1]));
}

void CtcSearch::Impl::ExtendPrefix(size_t index, const LogProbRow& row, const FusedRow* fused) {
  const CtcPrefix& prefix = live[index];
  if (histories.depth(prefix.node) >= options.max_length) {
    return;
  }
  const int32_t last = LastLabel(prefix.node);
  const double most_gain = histories.gain(prefix.node) + histories.max_gain();
  const bool is_sorted = !plan->masks_histories() && !plan->has_hotwords();
  for (const int32_t label : ranked.Tried(histories, prefix.node)) {
    const double log_prob = row.label(label);
    const double sum = (label == last ? prefix.blank.sum : prefix.mass) + log_prob;
    if (sum == kLogZero) {
      continue;
    }
    const bool is_hopeless = sum + most_gain < least_rank;
    if (is_hopeless && (!has_live_child[index] || ranked.tries_all())) {
      if (is_sorted && label != last) {
        break;  // those behind it are worse
      }
      continue;
    }
    const int32_t child = has_live_child[index] ? histories.Find(prefix.node, label) : -1;
    if (child >= 0 && IsLive(child)) {
      if (!ranked.tries_all()) {
        Join(index, label, log_prob, sum, child);
      }
      continue;
    }
    if (is_hopeless) {
      continue;
    }
    const double rank = sum + histories.GainOf(prefix.node, label, fused);
    if (rank > kLogZero) {
      candidates.push_back({rank, sum, static_cast<int32_t>(index), label});
    }
  }
}

void CtcSearch::Impl::Extend(const LogProbRow& row, absl::Span<const FusedRow* const> fused) {
  size_t most_bans = 0;
  for (size_t i = 0; plan->masks_histories() && i < live.size(); ++i) {
    most_bans = std::max(most_bans, histories.rules(live[i].node).edits().size());
  }
  // 2.
  FindLeastRank();
  double most = kLogZero;  // that a prefix comes to without a label's log-probability
  for (const CtcPrefix& prefix : live) {
    most = std::max(most, prefix.mass + histories.gain(prefix.node) + histories.max_gain());
  }
  // 3.
  ranked.Rank(row, most_bans, least_rank - most);
  candidates.clear();
  if (ranked.tries_all()) {
    JoinAll(row);
  }
  for (size_t i = 0; i < live.size(); ++i) {
    ExtendPrefix(i, row, Fused(fused, i));
  }
  // 4.
  for (size_t i = 0; i < live.size(); ++i) {
    const double mass = Combine(stays[i].blank_sum, stays[i].label_sum);
    if (mass > kLogZero) {
      candidates.push_back(
          {mass + histories.gain(live[i].node), mass, static_cast<int32_t>(i), -1});
    }
  }
}

// The beam: best first. False: nothing is left.
bool CtcSearch::Impl::Choose() {
  const auto better = [this](const CtcCandidate& a, const CtcCandidate& b) { return Better(a, b); };
  const auto size = static_cast<size_t>(options.beam_size);
  if (candidates.size() > size) {
    std::nth_element(candidates.begin(), candidates.begin() + options.beam_size, candidates.end(),
                     better);
    candidates.resize(size);
  }
  std::sort(candidates.begin(), candidates.end(), better);
  while (options.frame_beam > 0 && !candidates.empty() &&
         candidates.back().rank < candidates.front().rank - options.frame_beam) {
    candidates.pop_back();
  }
  return !candidates.empty();
}

// The times of a prefix's labels, its last one included, as another prefix continues them.
int32_t CtcSearch::Impl::Frozen(const CtcPrefix& prefix, const CtcPath& path) {
  return prefix.node == LabelHistories::kRoot ? LabelTimes::kNone
                                              : times.Add(path.before, path.last);
}

// A prefix that stays, behind this frame.
CtcPrefix CtcSearch::Impl::Kept(size_t index, const LogProbRow& row) {
  const CtcPrefix& old = live[index];
  const CtcStay& stay = stays[index];
  CtcPrefix prefix;
  prefix.node = old.node;
  histories.Keep(prefix.node);
  prefix.blank = stay.blank_from_label ? old.label : old.blank;
  prefix.blank.sum = stay.blank_sum;
  prefix.blank.best = stay.blank_best;
  times.Keep(prefix.blank.before);
  const int32_t label = LastLabel(old.node);
  if (stay.label_parent >= 0) {
    const CtcPrefix& parent = live[static_cast<size_t>(stay.label_parent)];
    prefix.label.before = Frozen(parent, BestBefore(parent, label));
    prefix.label.last = {num_read, 1, static_cast<float>(row.label(label))};
  } else if (label >= 0) {
    prefix.label = old.label;
    times.Keep(prefix.label.before);
    ++prefix.label.last.duration;
    prefix.label.last.log_prob += static_cast<float>(row.label(label));
  }
  prefix.label.sum = stay.label_sum;
  prefix.label.best = stay.label_best;
  return prefix;
}

// A prefix that was extended by a label.
CtcPrefix CtcSearch::Impl::New(const CtcCandidate& candidate, const LogProbRow& row,
                               const FusedRow* fused) {
  const CtcPrefix& parent = live[static_cast<size_t>(candidate.prefix)];
  const CtcPath& path = BestBefore(parent, candidate.label);
  const double log_prob = row.label(candidate.label);
  CtcPrefix prefix;
  prefix.node = histories.Extend(parent.node, candidate.label, fused);
  prefix.label.sum = candidate.sum;
  prefix.label.best = path.best + log_prob;
  prefix.label.before = Frozen(parent, path);
  prefix.label.last = {num_read, 1, static_cast<float>(log_prob)};
  return prefix;
}

// 5.
void CtcSearch::Impl::Commit(const LogProbRow& row, absl::Span<const FusedRow* const> fused) {
  next_live.clear();
  for (const CtcCandidate& candidate : candidates) {
    const auto index = static_cast<size_t>(candidate.prefix);
    next_live.push_back(candidate.label < 0 ? Kept(index, row)
                                            : New(candidate, row, Fused(fused, index)));
    next_live.back().mass = candidate.sum;
  }
  for (const CtcPrefix& prefix : live) {
    live_of[static_cast<size_t>(prefix.node)] = -1;
    times.Drop(prefix.blank.before);
    times.Drop(prefix.label.before);
    histories.Drop(prefix.node);
  }
  live.swap(next_live);
  ++num_read;
  IndexLive();
  histories.ClearSteps();
  for (const CtcPrefix& prefix : live) {
    histories.TakeSlot(prefix.node);
  }
  histories.ReleaseSlots([this](int32_t node) { return IsLive(node); });
  ListRows();
}

void CtcSearch::Impl::ListRows() {
  rows.clear();
  for (size_t i = 0; num_read < num_added && i < live.size(); ++i) {
    rows.push_back({histories.slot(live[i].node), num_read});
  }
}

FrameHypothesis CtcSearch::Impl::Answer(const CtcPrefix& prefix) const {
  const CtcPath& path = prefix.label.best > prefix.blank.best ? prefix.label : prefix.blank;
  FrameHypothesis answer;
  histories.AppendLabels(prefix.node, 0, answer.labels);
  times.Append(path.before, answer.times);
  if (prefix.node != LabelHistories::kRoot) {
    answer.times.push_back(path.last);
  }
  answer.log_prob = path.best;
  answer.merged_log_prob = prefix.mass;
  histories.Score(prefix.node, finished && num_read == num_added, answer);
  return answer;
}

}  // namespace beamwright::search
