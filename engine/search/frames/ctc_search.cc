// Prefix beam search over the frames of a CTC model. A hypothesis is a prefix: a sequence of
// labels, whatever its alignment. The rules, penalties and bonuses of a prefix, and its place in
// the tree of labels, are those of LabelHistories, which transducers use as well.
#include "engine/search/frames/ctc_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>

#include "engine/search/frames/label_histories.h"
#include "engine/search/frames/log_prob_row.h"
#include "ops/base/check.h"
#include "ops/base/status.h"

namespace beamwright::search {

// The inside of CtcSearch: the live prefixes, and the steps of a frame in their order.
//

// Alignments of one prefix that end alike. The best one's times: of all labels but the last as a
// chain, of the last, which may still grow, here.
struct CtcPath {
  double sum = kLogZero;   // of all alignments; with Recombine::kMax, of the best
  double best = kLogZero;  // of the best
  int32_t before = LabelTimes::kNone;
  LabelTime last;  // nothing for the prefix without labels
};

struct CtcPrefix {
  int32_t node = LabelHistories::kRoot;
  CtcPath blank;  // that end in the blank
  CtcPath label;  // that end in the last label
  double mass = kLogZero;
};

// A live prefix one frame later; where its best paths come from.
struct CtcStay {
  double blank_sum = kLogZero;
  double blank_best = kLogZero;
  double label_sum = kLogZero;
  double label_best = kLogZero;
  bool blank_from_label = false;
  int32_t label_parent = -1;  // a live prefix that this one continues; -1: the label goes on
};

// What competes for the beam: a live prefix, or a live prefix and a label.
struct CtcCandidate {
  double rank = kLogZero;
  double sum = kLogZero;  // of a new one
  int32_t prefix = 0;
  int32_t label = -1;  // -1: the prefix itself
};

struct CtcSearch::Impl {
  Impl(std::shared_ptr<const FramePlan> the_plan, const CtcBegin& the_begin)
      : plan(std::move(the_plan)),
        options(plan->options()),
        begin(the_begin),
        histories(*plan),
        ranked(*plan) {
    CtcPrefix& root = live.emplace_back();
    root.blank.sum = root.blank.best = begin.blank;
    root.label.sum = root.label.best = begin.label >= 0 ? begin.continued : kLogZero;
    root.mass = Combine(root.blank.sum, root.label.sum);
    histories.Keep(root.node);
    histories.TakeSlot(root.node);
  }

  double Combine(double a, double b) const {
    return options.recombine == Recombine::kMax ? std::max(a, b) : LogAdd(a, b);
  }
  LabelKey KeyOf(const CtcCandidate& candidate) const {
    return {live[static_cast<size_t>(candidate.prefix)].node, candidate.label};
  }
  bool Better(const CtcCandidate& a, const CtcCandidate& b) const {
    return a.rank > b.rank || (a.rank == b.rank && histories.OrderedBefore(KeyOf(a), KeyOf(b)));
  }
  bool IsLive(int32_t node) const {
    return static_cast<size_t>(node) < live_of.size() && live_of[static_cast<size_t>(node)] >= 0;
  }
  // The label that a prefix's frames may go on to emit; -1: none.
  int32_t LastLabel(int32_t node) const {
    return node == LabelHistories::kRoot ? begin.label : histories.label(node);
  }
  // Of the paths that label `label` may follow, the better one.
  const CtcPath& BestBefore(const CtcPrefix& prefix, int32_t label) const {
    return LastLabel(prefix.node) != label && prefix.label.best > prefix.blank.best ? prefix.label
                                                                                    : prefix.blank;
  }
  const FusedRow* Fused(absl::Span<const FusedRow* const> fused, size_t prefix) const {
    return fused.empty() ? nullptr : fused[prefix];
  }

  absl::Status CheckFrame(absl::Span<const float> log_probs,
                          absl::Span<const FusedRow* const> fused) const;
  void IndexLive();
  void Stay(const LogProbRow& row);
  void Extend(const LogProbRow& row, absl::Span<const FusedRow* const> fused);
  void Join(size_t index, int32_t label, double log_prob, double sum, int32_t child);
  void JoinAll(const LogProbRow& row);
  void FindLeastRank();
  // index: of a live prefix, like all numbers of prefixes.
  void ExtendPrefix(size_t index, const LogProbRow& row, const FusedRow* fused);
  bool Choose();
  void Commit(const LogProbRow& row, absl::Span<const FusedRow* const> fused);
  CtcPrefix Kept(size_t prefix, const LogProbRow& row);
  CtcPrefix New(const CtcCandidate& candidate, const LogProbRow& row, const FusedRow* fused);
  // The chain of all labels of a path; the caller holds it once.
  int32_t Frozen(const CtcPrefix& prefix, const CtcPath& path);
  void ListRows();
  FrameHypothesis Answer(const CtcPrefix& prefix) const;

  std::shared_ptr<const FramePlan> plan;
  const FrameOptions& options;
  const CtcBegin begin;
  LabelHistories histories;
  LabelTimes times;
  RankedLabels ranked;
  int64_t num_added = 0;
  int64_t num_read = 0;
  bool finished = false;

  std::vector<CtcPrefix> live;  // best first
  std::vector<CtcPrefix> next_live;
  std::vector<int32_t> live_of;      // by node: its place in `live`, or -1
  std::vector<char> has_live_child;  // by live prefix
  std::vector<CtcStay> stays;        // by live prefix
  std::vector<CtcCandidate> candidates;
  double least_rank = kLogZero;  // whatever ranks lower can't enter the beam
  std::vector<double> ranks;     // scratch
  std::vector<FrameRow> rows;
};

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

CtcSearch::CtcSearch(std::shared_ptr<const FramePlan> plan, const CtcBegin& begin)
    : impl_(std::make_unique<Impl>(std::move(plan), begin)) {
  BW_CHECK(impl_->options.kind == FrameKind::kCtc);
  impl_->IndexLive();
}
CtcSearch::~CtcSearch() = default;
CtcSearch::CtcSearch(CtcSearch&&) noexcept = default;
CtcSearch& CtcSearch::operator=(CtcSearch&&) noexcept = default;

void CtcSearch::AddFrames(int64_t count) {
  BW_DCHECK(count >= 0 && !impl_->finished);
  impl_->num_added += count;
  impl_->ListRows();
}
void CtcSearch::Finish() { impl_->finished = true; }
bool CtcSearch::done() const { return impl_->finished && impl_->num_read == impl_->num_added; }
absl::Span<const FrameRow> CtcSearch::rows() const { return impl_->rows; }
absl::Span<const LabelStep> CtcSearch::label_steps() const {
  return done() ? absl::Span<const LabelStep>() : impl_->histories.steps();
}
int CtcSearch::num_slots() const { return impl_->histories.num_slots(); }
int64_t CtcSearch::frame() const { return impl_->num_read; }

absl::Status CtcSearch::Advance(absl::Span<const float> log_probs,
                                absl::Span<const FusedRow* const> fused) {
  BW_RETURN_IF_ERROR(impl_->CheckFrame(log_probs, fused));
  const LogProbRow row(impl_->options, log_probs);
  impl_->Stay(row);
  impl_->Extend(row, fused);
  if (!impl_->Choose()) {
    return NothingLeft(impl_->options, impl_->num_read);
  }
  impl_->Commit(row, fused);
  return absl::OkStatus();
}

void CtcSearch::AddStableLabels(std::vector<int32_t>& labels) const {
  if (done()) {
    AppendStable(Results(), labels);
    return;
  }
  std::vector<int32_t> nodes;
  for (const CtcPrefix& prefix : impl_->live) {
    nodes.push_back(prefix.node);
  }
  AppendStable(impl_->histories, nodes, labels);
}

int64_t CtcSearch::trailing_blanks() const {
  const CtcPrefix& first = impl_->live[0];
  const CtcPath& path = first.label.best > first.blank.best ? first.label : first.blank;
  return first.node == LabelHistories::kRoot
             ? impl_->num_read
             : impl_->num_read - path.last.first_frame - path.last.duration;
}

int CtcSearch::num_labels() const { return impl_->histories.depth(impl_->live[0].node); }

size_t CtcSearch::num_held() const {
  return impl_->histories.num_nodes() + impl_->times.num_used();
}

std::vector<FrameHypothesis> CtcSearch::Results() const {
  std::vector<FrameHypothesis> answers;
  for (const CtcPrefix& prefix : impl_->live) {
    if (impl_->histories.MayEnd(prefix.node)) {
      answers.push_back(impl_->Answer(prefix));
    }
  }
  SortAnswers(impl_->options.n_best, answers);
  return answers;
}

CtcBegin CtcSearch::End() const {
  const std::vector<FrameHypothesis> answers = Results();
  for (const CtcPrefix& prefix : impl_->live) {
    std::vector<int32_t> labels;
    impl_->histories.AppendLabels(prefix.node, 0, labels);
    if (!answers.empty() && labels == answers[0].labels) {
      return {impl_->LastLabel(prefix.node), prefix.blank.sum - prefix.mass,
              prefix.label.sum - prefix.mass};
    }
  }
  return {};
}

}  // namespace beamwright::search
