// A round of a transducer's search. Active hypotheses are at the earliest frame and read one row
// each; waiting ones have gone on to later frames. With alignment-length synchronous search all
// that are not over are active, whatever their frame.
//
// 1. Each row gives a blank, which moves on by a frame or its durations, and its best labels,
//    which stay in the frame unless it has as many symbols as allowed (TakeRow).
// 2. Waiting hypotheses compete with what was made (AddWaiting). Equal labels at equal frames
//    are one hypothesis, whose masses add (transducer_impl.h).
// 3. Candidates are ranked with what scorers and boosted phrases give them (Rank).
// 4. Those that are left become active or waiting (Commit). Without an active one the frame
//    ends: hypotheses too far behind the best are dropped (EndFrame), and those of the earliest
//    frame become active (StartFrame).
// 5. Histories take and release slots of the predictor, and the next rows are listed (MoveSlots,
//    ListRows) if their frames are there.
//
// An example of a round, with a beam of 2 at frame 7. Row 0 has the labels "a", row 1 "ab". Row 0
// gives "a" at frame 8 (its blank), and "ab" and "ac" at frame 7; row 1 gives "ab" at frame 8 and
// "abc" at frame 7. "ab" at 7 and at 8 are two candidates, since frames differ. Those at frame 8
// wait, those at frame 7 are the rows of the next round.
#include "engine/search/frames/transducer_impl.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "engine/search/frames/log_prob_row.h"
#include "engine/search/row_search.h"
#include "ops/base/status.h"

namespace beamwright::search {

// Sorted by group, and in a group by mass, so that the first of a group is its heaviest, and equal
// masses are in the order in which they were made. The merged candidate has the alignment of its
// best member (`best`), and the sum, or the largest, of the masses.
void TransducerCandidates::Merge() {
  if (options_->recombine == Recombine::kNone) {
    return;
  }
  std::sort(list_.begin(), list_.end(),
            [](const TransducerCandidate& a, const TransducerCandidate& b) {
              return std::tie(a.frame, a.key.node, a.key.label, b.mass, a.number) <
                     std::tie(b.frame, b.key.node, b.key.label, a.mass, b.number);
            });
  size_t kept = 0;
  for (size_t i = 0; i < list_.size(); ++i) {
    if (kept == 0 || !SameGroup(list_[kept - 1], list_[i])) {
      list_[kept++] = list_[i];
      continue;
    }
    TransducerCandidate& first = list_[kept - 1];
    const double mass = options_->recombine == Recombine::kMax ? std::max(first.mass, list_[i].mass)
                                                               : LogAdd(first.mass, list_[i].mass);
    if (list_[i].best > first.best) {
      first = list_[i];
    }
    first.mass = mass;
  }
  list_.resize(kept);
}

bool TransducerCandidates::Better(const TransducerCandidate& a,
                                  const TransducerCandidate& b) const {
  if (a.rank != b.rank) {
    return a.rank > b.rank;
  }
  if (a.key != b.key) {
    return histories_->OrderedBefore(a.key, b.key);
  }
  return a.frame != b.frame ? a.frame > b.frame : a.number < b.number;
}

// A candidate that has gone on to a later frame competes only with those at its frame or later
// ones: what is behind has not paid for the frames between. num_kept_[k] counts what is kept k
// frames ahead. Where all are alike the best `beam_size` are found without sorting the others.
void TransducerCandidates::Prune(int64_t frame) {
  const auto better = [this](const TransducerCandidate& a, const TransducerCandidate& b) {
    return Better(a, b);
  };
  const auto size = static_cast<size_t>(options_->beam_size);
  // In alignment order, and in greedy search, each competes with all others.
  const bool frames_count = !options_->alignment_length_synchronous && size > 1;
  const auto ahead = [&](const TransducerCandidate& candidate) {
    return frames_count ? static_cast<size_t>(candidate.frame - frame) : 0;
  };
  const bool all_alike = std::all_of(
      list_.begin(), list_.end(),
      [&](const TransducerCandidate& candidate) { return ahead(candidate) == ahead(list_[0]); });
  if (all_alike && list_.size() > size) {
    std::nth_element(list_.begin(), list_.begin() + options_->beam_size, list_.end(), better);
    list_.resize(size);
  }
  std::sort(list_.begin(), list_.end(), better);
  num_kept_.assign(static_cast<size_t>(options_->longest_duration()) + 1, 0);
  size_t kept = 0;
  for (const TransducerCandidate& candidate : list_) {
    const auto first = static_cast<std::ptrdiff_t>(ahead(candidate));
    if (std::accumulate(num_kept_.begin() + first, num_kept_.end(), 0) < options_->beam_size) {
      ++num_kept_[static_cast<size_t>(first)];
      list_[kept++] = candidate;
    }
  }
  list_.resize(kept);
}

TransducerSearch::Impl::Impl(std::shared_ptr<const FramePlan> the_plan, int64_t first_frame)
    : plan(std::move(the_plan)),
      options(plan->options()),
      synchronous(options.alignment_length_synchronous),
      merges_at_end(options.beam_size > 1),
      histories(*plan),
      candidates(options, histories),
      frame(first_frame),
      tried_by(static_cast<size_t>(options.vocabulary_size), -1) {
  histories.Keep(LabelHistories::kRoot);
  active.push_back({LabelHistories::kRoot, LabelTimes::kNone, first_frame});
  histories.TakeSlot(LabelHistories::kRoot);
}

absl::Status TransducerSearch::Impl::CheckLogProb(size_t row, absl::string_view what, int32_t label,
                                                  float value) const {
  if (!(value <= kRoundedUp)) {
    return Invalid("frame ", active[row].frame, ", row ", row, ", ", what, " ", label, ": ", value,
                   " is not a log-probability, which is at most 0");
  }
  return absl::OkStatus();
}

absl::Status TransducerSearch::Impl::CheckRow(size_t row, const FrameCandidates& found) {
  const auto where = [&] { return absl::StrCat("frame ", active[row].frame, ", row ", row, ": "); };
  if (found.labels.size() != found.log_probs.size() ||
      found.watched.size() != rules[row].watched.size() ||
      found.duration_log_probs.size() != options.durations.size()) {
    return Invalid(where(), found.labels.size(), " labels with ", found.log_probs.size(),
                   " log-probabilities, ", found.watched.size(), " watched of ",
                   rules[row].watched.size(), ", ", found.duration_log_probs.size(),
                   " durations of ", options.durations.size());
  }
  if (!options.scorers.empty() && found.fused == nullptr) {
    return Invalid(where(), "scorers' log-probabilities are missing");
  }
  for (size_t i = 0; i < found.labels.size(); ++i) {
    const int32_t label = found.labels[i];
    if (label < 0 || label >= options.vocabulary_size) {
      return Invalid(where(), "label ", label, " is outside the vocabulary of ",
                     options.vocabulary_size);
    }
    BW_RETURN_IF_ERROR(CheckLogProb(row, "label", label, found.log_probs[i]));
  }
  for (size_t i = 0; i < found.watched.size(); ++i) {
    BW_RETURN_IF_ERROR(CheckLogProb(row, "label", rules[row].watched[i], found.watched[i]));
  }
  for (size_t i = 0; i < found.duration_log_probs.size(); ++i) {
    BW_RETURN_IF_ERROR(
        CheckLogProb(row, "duration", options.durations[i], found.duration_log_probs[i]));
  }
  return absl::OkStatus();
}

absl::Status TransducerSearch::Impl::Check(absl::Span<const FrameCandidates> found) {
  if (rows.empty() || found.size() != rows.size()) {
    return Invalid("candidates of ", found.size(), " rows, the round has ", rows.size());
  }
  for (size_t row = 0; row < found.size(); ++row) {
    BW_RETURN_IF_ERROR(CheckRow(row, found[row]));
  }
  return absl::OkStatus();
}

// frames: that the symbol takes. Durations of labels are reported as they count.
void TransducerSearch::Impl::Add(size_t row, int32_t label, int64_t frames, double log_prob) {
  const TransducerHypothesis& from = active[row];
  TransducerCandidate candidate;
  candidate.mass = from.mass + log_prob;
  if (candidate.mass == kLogZero) {
    return;
  }
  candidate.key = histories.Normal({from.node, label});
  candidate.frame = from.frame + frames;
  if (finished && merges_at_end) {
    candidate.frame = std::min(candidate.frame, num_added);
  }
  candidate.best = from.best + log_prob;
  candidate.from = static_cast<int32_t>(row);
  candidate.label = label;
  candidate.duration = options.durations.empty() ? 1 : static_cast<int32_t>(frames);
  candidate.label_log_prob = static_cast<float>(log_prob);
  candidates.Add(candidate);
}

void TransducerSearch::Impl::TakeLabel(size_t row, int32_t label, double log_prob,
                                       const FrameCandidates& found) {
  tried_by[static_cast<size_t>(label)] = static_cast<int32_t>(row);
  const bool ends_frame = !synchronous && round + 1 == options.max_symbols_per_frame;
  if (options.durations.empty()) {
    Add(row, label, ends_frame ? 1 : 0, log_prob);
  }
  for (size_t i = 0; i < options.durations.size(); ++i) {
    const int frames = std::max(options.durations[i], ends_frame ? 1 : 0);
    Add(row, label, frames, log_prob + std::min(found.duration_log_probs[i], 0.0f));
  }
}

// 1. A penalty on blanks is taken from their log-probability, and the row is normalised again by
// `shift`.
void TransducerSearch::Impl::TakeRow(size_t row, const FrameCandidates& found) {
  const double raw_blank = std::min(found.watched[0], 0.0f);
  const double shift = BlankPenaltyShift(raw_blank, options.blank_penalty);
  const double blank = raw_blank - options.blank_penalty - shift;
  if (options.durations.empty()) {
    Add(row, -1, 1, blank);
  }
  for (size_t i = 0; i < options.durations.size(); ++i) {
    // A blank that takes no frame would say the same again: NeMo moves on by one.
    Add(row, -1, std::max(options.durations[i], 1),
        blank + std::min(found.duration_log_probs[i], 0.0f));
  }
  if (histories.depth(active[row].node) >= options.max_length) {
    return;
  }
  int num_tried = 0;
  const auto take = [&](int32_t label, float log_prob) {
    if (label == options.blank || tried_by[static_cast<size_t>(label)] == static_cast<int>(row)) {
      return false;
    }
    TakeLabel(row, label, std::min(static_cast<double>(log_prob) - shift, 0.0), found);
    return true;
  };
  for (size_t i = 0; i < found.labels.size() && num_tried < options.num_expanded(); ++i) {
    num_tried += take(found.labels[i], found.log_probs[i]) ? 1 : 0;
  }
  for (size_t i = 1; i < found.watched.size(); ++i) {
    take(rules[row].watched[i], found.watched[i]);
  }
}

// 2.
void TransducerSearch::Impl::AddWaiting() {
  for (size_t i = 0; i < waiting.size(); ++i) {
    TransducerCandidate candidate;
    candidate.key = {waiting[i].node, -1};
    candidate.frame = waiting[i].frame;
    candidate.mass = waiting[i].mass;
    candidate.best = waiting[i].best;
    candidate.from = static_cast<int32_t>(i);
    candidate.waits = true;
    candidates.Add(candidate);
  }
}

// 3.
void TransducerSearch::Impl::Rank(absl::Span<const FrameCandidates> found) {
  std::vector<TransducerCandidate>& list = candidates.list();
  for (TransducerCandidate& candidate : list) {
    const LabelKey key = candidate.key;
    candidate.rank =
        candidate.mass + (key.label < 0
                              ? histories.gain(key.node)
                              : histories.GainOf(key.node, key.label,
                                                 found[static_cast<size_t>(candidate.from)].fused));
  }
  std::erase_if(list,
                [](const TransducerCandidate& candidate) { return !(candidate.rank > kLogZero); });
}

// The hypothesis of a candidate that is left. It holds its history and its times.
TransducerHypothesis TransducerSearch::Impl::Taken(const TransducerCandidate& candidate,
                                                   const FusedRow* fused) {
  const auto from = static_cast<size_t>(candidate.from);
  const TransducerHypothesis& before = candidate.waits ? old_waiting[from] : old_active[from];
  TransducerHypothesis taken;
  if (candidate.key.label >= 0) {
    taken.node = histories.Extend(candidate.key.node, candidate.key.label, fused);
  } else {
    taken.node = candidate.key.node;
    histories.Keep(taken.node);
  }
  if (candidate.label >= 0) {
    taken.times =
        times.Add(before.times, {before.frame, candidate.duration, candidate.label_log_prob});
  } else {
    taken.times = before.times;
    times.Keep(taken.times);
  }
  taken.frame = candidate.frame;
  taken.mass = candidate.mass;
  taken.best = candidate.best;
  taken.rank = candidate.rank;
  return taken;
}

void TransducerSearch::Impl::Drop(const TransducerHypothesis& hypothesis) {
  times.Drop(hypothesis.times);
  histories.Drop(hypothesis.node);
}

// 4. Old hypotheses are dropped after the new ones hold what they share.
void TransducerSearch::Impl::Commit(absl::Span<const FrameCandidates> found) {
  old_active.swap(active);
  old_waiting.swap(waiting);
  active.clear();
  waiting.clear();
  for (const TransducerCandidate& candidate : candidates.list()) {
    const FusedRow* const fused =
        candidate.waits ? nullptr : found[static_cast<size_t>(candidate.from)].fused;
    const TransducerHypothesis taken = Taken(candidate, fused);
    const bool goes_on = synchronous ? !IsOver(taken) : taken.frame == frame;
    (goes_on ? active : waiting).push_back(taken);
  }
  for (const TransducerHypothesis& hypothesis : old_active) {
    Drop(hypothesis);
  }
  for (const TransducerHypothesis& hypothesis : old_waiting) {
    Drop(hypothesis);
  }
  ++round;
  if (!synchronous && active.empty()) {
    EndFrame();
    StartFrame();
  }
  histories.ClearSteps();
  MoveSlots();
  ListRows();
}

void TransducerSearch::Impl::EndFrame() {
  if (options.frame_beam == 0) {
    return;
  }
  while (waiting.back().rank < waiting[0].rank - options.frame_beam) {
    Drop(waiting.back());
    waiting.pop_back();
  }
}

// Those of the earliest frame become active.
void TransducerSearch::Impl::StartFrame() {
  frame = waiting[0].frame;
  for (const TransducerHypothesis& hypothesis : waiting) {
    frame = std::min(frame, hypothesis.frame);
  }
  round = 0;
  size_t kept = 0;
  for (const TransducerHypothesis& hypothesis : waiting) {
    if (hypothesis.frame == frame) {
      active.push_back(hypothesis);
    } else {
      waiting[kept++] = hypothesis;
    }
  }
  waiting.resize(kept);
}

// 5.
void TransducerSearch::Impl::MoveSlots() {
  is_live.assign(histories.num_ids(), false);
  for (const std::vector<TransducerHypothesis>* list : {&active, &waiting}) {
    for (const TransducerHypothesis& hypothesis : *list) {
      if (!IsOver(hypothesis)) {
        is_live[static_cast<size_t>(hypothesis.node)] = true;
        histories.TakeSlot(hypothesis.node);
      }
    }
  }
  histories.ReleaseSlots([this](int32_t node) { return is_live[static_cast<size_t>(node)]; });
}

bool TransducerSearch::Impl::IsDone() const {
  return finished &&
         std::all_of(active.begin(), active.end(),
                     [this](const TransducerHypothesis& hypothesis) { return IsOver(hypothesis); });
}

// None while a hypothesis waits for frames: of a live source, or as many as its longest duration.
void TransducerSearch::Impl::ListRows() {
  rows.clear();
  rules.clear();
  const int reach = finished || !merges_at_end ? 1 : options.longest_duration();
  const bool is_there = std::all_of(active.begin(), active.end(),
                                    [this, reach](const TransducerHypothesis& hypothesis) {
                                      return hypothesis.frame + reach <= num_added;
                                    });
  for (size_t i = 0; is_there && i < active.size(); ++i) {
    rows.push_back({histories.slot(active[i].node), active[i].frame});
    RowRules& row_rules = rules.emplace_back(histories.rules(active[i].node).View());
    row_rules.added = plan->start_gains();
    row_rules.watched = histories.continuations(active[i].node);
  }
}

std::vector<const TransducerHypothesis*> TransducerSearch::Impl::Live() const {
  std::vector<const TransducerHypothesis*> live;
  for (const std::vector<TransducerHypothesis>* list : {&active, &waiting}) {
    for (const TransducerHypothesis& hypothesis : *list) {
      live.push_back(&hypothesis);
    }
  }
  return live;
}

const TransducerHypothesis& TransducerSearch::Impl::Leading() const {
  if (active.empty() || waiting.empty()) {
    return active.empty() ? waiting[0] : active[0];
  }
  const TransducerHypothesis& a = active[0];
  const TransducerHypothesis& b = waiting[0];
  const bool is_behind =
      b.rank > a.rank || (b.rank == a.rank && histories.OrderedBefore({b.node, -1}, {a.node, -1}));
  return is_behind ? b : a;
}

FrameHypothesis TransducerSearch::Impl::Answer(const TransducerHypothesis& best,
                                               double mass) const {
  FrameHypothesis answer;
  histories.AppendLabels(best.node, 0, answer.labels);
  times.Append(best.times, answer.times);
  answer.log_prob = best.best;
  answer.merged_log_prob = mass;
  histories.Score(best.node, IsDone(), answer);
  return answer;
}

}  // namespace beamwright::search
