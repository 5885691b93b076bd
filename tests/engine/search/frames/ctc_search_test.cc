// CtcSearch against all alignments.
#include "engine/search/frames/ctc_search.h"

#include <random>
#include <utility>

#include "gtest/gtest.h"
#include "tests/engine/search/frames/expect_answers.h"
#include "tests/engine/search/frames/naive_frames.h"
#include "tests/engine/search/frames/run_ctc.h"

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
