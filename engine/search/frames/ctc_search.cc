#include "engine/search/frames/ctc_search.h"

#include <utility>

#include "engine/search/frames/ctc_impl.h"
#include "engine/search/frames/frame_answers.h"
#include "engine/search/frames/label_histories.h"
#include "engine/search/frames/log_prob_row.h"
#include "ops/base/check.h"
#include "ops/base/status.h"

namespace beamwright::search {

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
