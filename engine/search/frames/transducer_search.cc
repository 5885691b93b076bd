// The public part of a transducer search; its steps are functions of Impl. A caller adds frames as
// the encoder makes them, computes scores for rows(), and passes the candidates to Advance:
//
// 1. Hypotheses that wait at a frame, and those that each row makes by a blank or a label, become
//    candidates (AddWaiting, TakeRow).
// 2. Candidates with equal labels are merged, ranked, pruned, and become the next hypotheses
//    (Merge, Rank, Prune, Commit).
//
// Results sorts live hypotheses by their labels, so that alignments of equal labels are adjacent,
// adds up their probabilities if the options say so, and takes the times from the best of them.
#include "engine/search/frames/transducer_search.h"

#include <algorithm>
#include <utility>

#include "engine/search/frames/label_histories.h"
#include "engine/search/frames/log_prob_row.h"
#include "engine/search/frames/transducer_impl.h"
#include "ops/base/check.h"
#include "ops/base/status.h"

namespace beamwright::search {

TransducerSearch::TransducerSearch(std::shared_ptr<const FramePlan> plan, int64_t first_frame)
    : impl_(std::make_unique<Impl>(std::move(plan), first_frame)) {
  BW_CHECK(impl_->options.kind != FrameKind::kCtc);
}
TransducerSearch::~TransducerSearch() = default;
TransducerSearch::TransducerSearch(TransducerSearch&&) noexcept = default;
TransducerSearch& TransducerSearch::operator=(TransducerSearch&&) noexcept = default;

void TransducerSearch::AddFrames(int64_t count) {
  BW_DCHECK(count >= 0 && !impl_->finished);
  impl_->num_added += count;
  impl_->ListRows();
}

void TransducerSearch::Finish() {
  Impl& impl = *impl_;
  impl.finished = true;
  if (impl.synchronous) {
    std::vector<TransducerHypothesis> all;
    all.swap(impl.active);
    for (const TransducerHypothesis& hypothesis : all) {
      (impl.IsOver(hypothesis) ? impl.waiting : impl.active).push_back(hypothesis);
    }
  }
  impl.ListRows();
}

bool TransducerSearch::done() const { return impl_->IsDone(); }
absl::Span<const FrameRow> TransducerSearch::rows() const { return impl_->rows; }
absl::Span<const RowRules> TransducerSearch::rules() const { return impl_->rules; }
int TransducerSearch::candidates_per_row() const { return impl_->options.num_expanded() + 1; }
absl::Span<const LabelStep> TransducerSearch::label_steps() const {
  return done() ? absl::Span<const LabelStep>() : impl_->histories.steps();
}
int TransducerSearch::num_slots() const { return impl_->histories.num_slots(); }

absl::Status TransducerSearch::Advance(absl::Span<const FrameCandidates> found) {
  Impl& impl = *impl_;
  BW_RETURN_IF_ERROR(impl.Check(found));
  impl.candidates.Clear();
  impl.AddWaiting();
  std::fill(impl.tried_by.begin(), impl.tried_by.end(), -1);
  for (size_t row = 0; row < found.size(); ++row) {
    impl.TakeRow(row, found[row]);
  }
  impl.candidates.Merge();
  impl.Rank(found);
  if (impl.candidates.list().empty()) {
    return NothingLeft(impl.options, frame());
  }
  impl.candidates.Prune(impl.frame);
  impl.Commit(found);
  return absl::OkStatus();
}

int64_t TransducerSearch::frame() const {
  int64_t frame = impl_->synchronous ? impl_->num_added : std::min(impl_->frame, impl_->num_added);
  for (size_t i = 0; impl_->synchronous && i < impl_->active.size(); ++i) {
    frame = std::min(frame, impl_->active[i].frame);
  }
  return frame;
}

void TransducerSearch::AddStableLabels(std::vector<int32_t>& labels) const {
  if (done()) {
    AppendStable(Results(), labels);
    return;
  }
  std::vector<int32_t> nodes;
  for (const TransducerHypothesis* hypothesis : impl_->Live()) {
    nodes.push_back(hypothesis->node);
  }
  AppendStable(impl_->histories, nodes, labels);
}

int64_t TransducerSearch::trailing_blanks() const {
  const TransducerHypothesis& first = impl_->Leading();
  if (first.times == LabelTimes::kNone) {
    return first.frame;
  }
  const LabelTime& last = impl_->times.last(first.times);
  return std::max<int64_t>(0, first.frame - last.first_frame - last.duration);
}

int TransducerSearch::num_labels() const { return impl_->histories.depth(impl_->Leading().node); }

int64_t TransducerSearch::overhang() const {
  const std::vector<FrameHypothesis> answers = Results();
  if (answers.empty() || answers[0].times.empty()) {
    return 0;
  }
  const LabelTime& last = answers[0].times.back();
  return std::max<int64_t>(0, last.first_frame + last.duration - impl_->num_added);
}

size_t TransducerSearch::num_held() const {
  return impl_->histories.num_nodes() + impl_->times.num_used();
}

std::vector<FrameHypothesis> TransducerSearch::Results() const {
  const Impl& impl = *impl_;
  std::vector<const TransducerHypothesis*> live = impl.Live();
  // Alignments of equal labels side by side, the largest first.
  std::sort(live.begin(), live.end(),
            [](const TransducerHypothesis* a, const TransducerHypothesis* b) {
              return a->node != b->node ? a->node < b->node : a->mass > b->mass;
            });
  std::vector<FrameHypothesis> answers;
  for (size_t i = 0; i < live.size();) {
    const TransducerHypothesis* best = live[i];
    double mass = best->mass;
    const int32_t node = best->node;
    for (++i; i < live.size() && live[i]->node == node; ++i) {
      mass = impl.options.recombine == Recombine::kSum ? LogAdd(mass, live[i]->mass) : mass;
      best = live[i]->best > best->best ? live[i] : best;
    }
    if (impl.histories.MayEnd(node)) {
      answers.push_back(impl.Answer(*best, mass));
    }
  }
  SortAnswers(impl.options.n_best, answers);
  return answers;
}

}  // namespace beamwright::search
