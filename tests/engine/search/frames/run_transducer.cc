#include "tests/engine/search/frames/run_transducer.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "ops/kernels/topk.h"

namespace beamwright::search::frames_testing {

TransducerRun::TransducerRun(const FrameOptions& options, Joiner joiner, RowScorers scorers)
    : options_(options),
      joiner_(std::move(joiner)),
      scorers_(std::move(scorers)),
      search_(*FramePlan::Create(options)) {}

// In place, from the last to the first: no step may read what another has written.
void TransducerRun::TakeSteps() {
  histories_.resize(static_cast<size_t>(search_.num_slots()));
  const absl::Span<const LabelStep> steps = search_.label_steps();
  std::set<int32_t> written;
  for (size_t i = steps.size(); i-- > 0;) {
    const LabelStep& step = steps[i];
    ASSERT_TRUE(written.insert(step.slot).second);
    ASSERT_EQ(written.count(step.parent_slot), 0u);
    Labels labels;
    if (step.parent_slot >= 0) {
      labels = histories_[static_cast<size_t>(step.parent_slot)];
      labels.push_back(step.label);
    }
    histories_[static_cast<size_t>(step.slot)] = labels;
    ++num_steps_;
  }
}

void TransducerRun::Round() {
  const size_t count = search_.rows().size();
  std::vector<ops::RowScan> scans(count);
  std::vector<std::vector<int32_t>> labels(count);
  std::vector<std::vector<float>> log_probs(count);
  std::vector<FusedRow> fused(count);
  std::vector<FrameCandidates> found(count);
  for (size_t i = 0; i < count; ++i) {
    const FrameRow& row = search_.rows()[i];
    const Labels& history = histories_[static_cast<size_t>(row.slot)];
    const NaiveRow& scores = joiner_(row.frame, history);
    ASSERT_TRUE(ops::ScanRow(scores.log_probs, ops::ScoreKind::kLogProbs, search_.rules()[i],
                             search_.candidates_per_row(), scans[i])
                    .ok());
    for (const ops::Candidate& candidate : scans[i].best) {
      labels[i].push_back(candidate.token);
      log_probs[i].push_back(candidate.log_prob);
    }
    found[i] = {labels[i], log_probs[i], scans[i].watched, scores.duration_log_probs, nullptr};
    for (size_t s = 0; s < scorers_.size(); ++s) {
      const std::vector<float> said = scorers_[s](history);
      std::copy(said.begin(), said.end(), fused[i].Scores(s, said.size()).begin());
      found[i].fused = &fused[i];
    }
  }
  num_rows_ += static_cast<int64_t>(count);
  status_ = search_.Advance(found);
}

void TransducerRun::Run() {
  TakeSteps();
  while (status_.ok() && !search_.rows().empty() && !testing::Test::HasFatalFailure()) {
    Round();
    TakeSteps();
    ASSERT_LE(search_.num_slots(), MaxSlots(options_));
  }
}

void TransducerRun::Feed(const std::vector<int64_t>& pieces) {
  for (const int64_t piece : pieces) {
    search_.AddFrames(piece);
    Run();
  }
  search_.Finish();
  Run();
  ASSERT_TRUE(search_.done() || !status_.ok());
}

std::vector<FrameHypothesis> RunTransducer(const FrameOptions& options, const Joiner& joiner,
                                           int64_t num_frames, const RowScorers& scorers) {
  TransducerRun run(options, joiner, scorers);
  run.search().AddFrames(num_frames);
  run.search().Finish();
  run.Run();
  if (run.status().ok()) {
    EXPECT_TRUE(run.search().done());
    return run.search().Results();
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(run.status())) << run.status();
  return {};
}

}  // namespace beamwright::search::frames_testing
