#include "tests/engine/search/frames/run_ctc.h"

#include <algorithm>
#include <utility>

#include "engine/search/options.h"
#include "gtest/gtest.h"

namespace beamwright::search::frames_testing {

CtcRun::CtcRun(const FrameOptions& options, RowScorers scorers)
    : scorers_(std::move(scorers)), search_(*FramePlan::Create(options)) {}

void CtcRun::TakeSteps() {
  histories_.resize(static_cast<size_t>(search_.num_slots()));
  const absl::Span<const LabelStep> steps = search_.label_steps();
  for (size_t i = steps.size(); i-- > 0;) {
    Labels labels;
    if (steps[i].parent_slot >= 0) {
      labels = histories_[static_cast<size_t>(steps[i].parent_slot)];
      labels.push_back(steps[i].label);
    }
    histories_[static_cast<size_t>(steps[i].slot)] = labels;
  }
}

absl::Status CtcRun::Advance(const std::vector<float>& log_probs) {
  search_.AddFrames(1);
  if (scorers_.empty()) {
    return search_.Advance(log_probs);
  }
  TakeSteps();
  std::vector<FusedRow> fused(search_.rows().size());
  std::vector<const FusedRow*> views;
  for (size_t i = 0; i < fused.size(); ++i) {
    const Labels& history = histories_[static_cast<size_t>(search_.rows()[i].slot)];
    for (size_t s = 0; s < scorers_.size(); ++s) {
      const std::vector<float> said = scorers_[s](history);
      std::copy(said.begin(), said.end(), fused[i].Scores(s, said.size()).begin());
    }
    views.push_back(&fused[i]);
  }
  return search_.Advance(log_probs, views);
}

std::vector<FrameHypothesis> RunCtc(const FrameOptions& options, const CtcTable& table,
                                    const RowScorers& scorers) {
  CtcRun run(options, scorers);
  for (const std::vector<float>& row : table) {
    const absl::Status status = run.Advance(row);
    if (!status.ok()) {
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      return {};
    }
  }
  run.search().Finish();
  EXPECT_TRUE(run.search().done());
  return run.search().Results();
}

}  // namespace beamwright::search::frames_testing
