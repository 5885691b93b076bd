#include "tests/engine/search/frames/run_searches.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "engine/search/options.h"
#include "gtest/gtest.h"
#include "ops/kernels/topk.h"

namespace beamwright::search::frames_testing {
namespace {

void ExpectTimes(const FrameHypothesis& answer, const NaiveSum& sum) {
  ASSERT_EQ(answer.times.size(), answer.labels.size());
  for (size_t i = 0; !sum.is_tied && i < answer.times.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(answer.times[i].first_frame, sum.times[i].frame);
    EXPECT_EQ(answer.times[i].duration, sum.times[i].duration);
    EXPECT_NEAR(answer.times[i].log_prob, sum.times[i].log_prob, 2e-5);
  }
}

}  // namespace

void ExpectAll(const std::vector<FrameHypothesis>& answers, const NaiveSums& sums, bool is_max,
               const NaiveGain& gain, double close) {
  const auto mass = [&](const NaiveSum& sum) {
    return is_max ? sum.best : std::log(sum.probability);
  };
  const std::vector<NaiveAnswer> ranked = Ranked(
      sums, [&](const Labels& labels, const NaiveSum& sum) { return mass(sum) + gain(labels); });
  ASSERT_EQ(answers.size(), ranked.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE(i);
    const FrameHypothesis& answer = answers[i];
    const auto found = sums.find(answer.labels);
    ASSERT_NE(found, sums.end());
    const NaiveSum& sum = found->second;
    EXPECT_NEAR(answer.score, ranked[i].score, close);  // in the right place
    EXPECT_NEAR(answer.score, mass(sum) + gain(answer.labels), close);
    EXPECT_NEAR(answer.merged_log_prob, mass(sum), close);
    EXPECT_NEAR(answer.log_prob, sum.best, close);
    ExpectTimes(answer, sum);
  }
}

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
