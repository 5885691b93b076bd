// CtcSearch against all alignments.
#include "engine/search/frames/ctc_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/search/frames/naive_frames.h"
#include "tests/engine/search/frames/run_searches.h"

namespace beamwright::search {
namespace {

using frames_testing::AllCtc;
using frames_testing::CtcTable;
using frames_testing::ExpectAll;
using frames_testing::RandomCtc;
using frames_testing::RunCtc;

FrameOptions WideOptions(int vocabulary, int blank) {
  FrameOptions options;
  options.kind = FrameKind::kCtc;
  options.vocabulary_size = vocabulary;
  options.blank = blank;
  options.beam_size = options.n_best = kMaxBeamSize;
  return options;
}

TEST(CtcSearchTest, AWideBeamFindsEveryLabelling) {
  std::mt19937 random(1);
  for (int i = 0; i < frames_testing::Trials(10000) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const int vocabulary = 2 + static_cast<int>(random() % 3);
    const int num_frames = static_cast<int>(random() % (vocabulary == 4 ? 4 : 5));
    const int blank = static_cast<int>(random() % static_cast<uint32_t>(vocabulary));
    const CtcTable table = RandomCtc(num_frames, vocabulary, i % 4 == 0 ? 0.2 : 0, random);
    FrameOptions options = WideOptions(vocabulary, blank);
    options.recombine = i % 3 == 0 ? Recombine::kMax : Recombine::kSum;
    ExpectAll(RunCtc(options, table), AllCtc(table, blank), options.recombine == Recombine::kMax);
  }
}

// "a" over both frames, and "a" behind a blank, are equally good: the label that goes on stays.
TEST(CtcSearchTest, OfEqualAlignmentsTheOneWhoseLabelGoesOnIsKept) {
  for (const int expansion : {0, 1}) {  // all labels are tried, or the best ones
    FrameOptions options = WideOptions(3, 0);
    options.beam_size = 4;
    options.n_best = 1;
    options.expansion = expansion;
    const std::vector<FrameHypothesis> answer = RunCtc(options, {{-1, -1, -4}, {-3, -0.5f, -4}});
    ASSERT_EQ(answer.size(), 1);
    EXPECT_EQ(answer[0].labels, (frames_testing::Labels{1}));
    EXPECT_EQ(answer[0].log_prob, -1.5);
    EXPECT_EQ(answer[0].times[0].first_frame, 0);
    EXPECT_EQ(answer[0].times[0].duration, 2);
  }
}

// Of all alignments of `table`, those whose first `num_first` frames say `first`: the sums by what
// the frames behind them say.
std::map<frames_testing::Labels, double> SumsBehind(const CtcTable& table, size_t num_first,
                                                    const frames_testing::Labels& first) {
  std::map<frames_testing::Labels, double> sums;
  const size_t vocabulary = table[0].size();
  std::vector<size_t> path(table.size());
  for (bool is_over = false; !is_over;) {
    frames_testing::Labels labels;
    size_t num_labels = 0;  // of the first frames
    double log_prob = 0;
    for (size_t t = 0; t < path.size(); ++t) {
      log_prob += table[t][path[t]];
      if (path[t] != 0 && (t == 0 || path[t] != path[t - 1])) {
        labels.push_back(static_cast<int32_t>(path[t]));
      }
      num_labels = t + 1 == num_first ? labels.size() : num_labels;
    }
    const auto middle = labels.begin() + static_cast<std::ptrdiff_t>(num_labels);
    if (frames_testing::Labels(labels.begin(), middle) == first) {
      sums[frames_testing::Labels(middle, labels.end())] += std::exp(log_prob);
    }
    is_over = true;
    for (size_t t = 0; t < path.size() && is_over; ++t) {
      path[t] = (path[t] + 1) % vocabulary;
      is_over = path[t] == 0;
    }
  }
  return sums;
}

// Frames of two searches: the second says what lies behind the first's answer, given that answer.
TEST(CtcSearchTest, ASearchGoesOnWhereAnotherEnded) {
  constexpr size_t kFirst = 3;
  std::mt19937 random(5);
  int num_lasting = 0;
  for (int i = 0; i < frames_testing::Trials(400) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const CtcTable table = RandomCtc(6, 3, i % 4 == 0 ? 0.2 : 0, random);
    const auto plan = *FramePlan::Create(WideOptions(3, 0));
    CtcSearch first(plan);
    first.AddFrames(kFirst);
    for (size_t t = 0; t < kFirst; ++t) {
      ASSERT_TRUE(first.Advance(table[t]).ok());
    }
    first.Finish();
    const frames_testing::Labels said = first.Results()[0].labels;
    num_lasting += first.End().label >= 0 && first.End().continued > -1 ? 1 : 0;
    CtcSearch second(plan, first.End());
    second.AddFrames(3);
    for (size_t t = kFirst; t < table.size(); ++t) {
      ASSERT_TRUE(second.Advance(table[t]).ok());
    }
    second.Finish();
    const double mass = std::exp(first.Results()[0].merged_log_prob);
    const std::map<frames_testing::Labels, double> sums = SumsBehind(table, kFirst, said);
    const std::vector<FrameHypothesis> answers = second.Results();
    for (const FrameHypothesis& answer : answers) {
      const auto sum = sums.find(answer.labels);
      ASSERT_NE(sum, sums.end());
      EXPECT_NEAR(std::exp(answer.merged_log_prob), sum->second / mass, 1e-6);
      EXPECT_EQ(answer.times.size(), answer.labels.size());
    }
    EXPECT_EQ(answers.size(), std::count_if(sums.begin(), sums.end(),
                                            [](const auto& sum) { return sum.second > 0; }));
  }
  EXPECT_GT(num_lasting, 0);
}

// Ranks are -1, -3 and -3.5.
TEST(CtcSearchTest, AHypothesisThatIsLowerByExactlyTheFrameBeamStays) {
  FrameOptions options = WideOptions(3, 0);
  const auto num_left = [&options](double frame_beam) {
    options.frame_beam = frame_beam;
    return RunCtc(options, {{-1, -3, -3.5f}}).size();
  };
  EXPECT_EQ(num_left(1.9), 1);
  EXPECT_EQ(num_left(2), 2);
  EXPECT_EQ(num_left(2.4), 2);
  EXPECT_EQ(num_left(2.5), 3);
}

}  // namespace
}  // namespace beamwright::search
