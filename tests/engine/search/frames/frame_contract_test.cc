// What searches over frames promise to streams: the same bits however frames arrive, stable
// labels that stay, an answer at any time.
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/search/frames/naive_frames.h"
#include "tests/engine/search/frames/random_frame_options.h"
#include "tests/engine/search/frames/run_searches.h"

namespace beamwright::search {
namespace {

using frames_testing::CtcRun;
using frames_testing::CtcTable;
using frames_testing::Joiner;
using frames_testing::Labels;
using frames_testing::RandomCtc;
using frames_testing::RandomFrameOptions;
using frames_testing::RandomJoiner;
using frames_testing::RunCtc;
using frames_testing::RunTransducer;
using frames_testing::TransducerRun;
using frames_testing::WithLabelOptions;

FrameOptions Plain(FrameKind kind, int vocabulary) {
  FrameOptions options;
  options.kind = kind;
  options.vocabulary_size = vocabulary;
  options.n_best = 4;
  return options;
}

// One of each order, by number.
FrameOptions TransducerOptions(int number) {
  FrameOptions options =
      Plain(number % 4 == 3 ? FrameKind::kTokenAndDuration : FrameKind::kTransducer, 6);
  options.max_symbols_per_frame = number % 4 == 1 || number % 4 == 3 ? 3 : 1;
  options.alignment_length_synchronous = number % 4 == 2;
  if (number % 4 == 2) {
    options.max_length = 30;
  }
  if (number % 4 == 3) {
    options.durations = {0, 1, 2, 4};
  }
  return options;
}

std::vector<int64_t> RandomPieces(int64_t num_frames, std::mt19937& random) {
  std::vector<int64_t> pieces;
  while (num_frames > 0) {
    const auto piece = static_cast<int64_t>(random() % 5);
    pieces.push_back(std::min(piece, num_frames));
    num_frames -= pieces.back();
  }
  return pieces;
}

TEST(FrameContractTest, PiecesChangeNoBitOfATransducersAnswer) {
  std::mt19937 random(10);
  for (int i = 0; i < frames_testing::Trials(400) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const RandomFrameOptions made =
        WithLabelOptions(TransducerOptions(i), i % 3 == 0 ? 0.2 : 0, random);
    const Joiner joiner = RandomJoiner(static_cast<uint32_t>(i), 6,
                                       static_cast<int>(made.options.durations.size()), 0);
    const auto num_frames = static_cast<int64_t>(random() % 25);
    const auto whole = RunTransducer(made.options, joiner, num_frames, made.row_scorers);
    TransducerRun run(made.options, joiner, made.row_scorers);
    run.Feed(RandomPieces(num_frames, random));
    EXPECT_EQ(run.search().Results(), whole);
  }
}

TEST(FrameContractTest, PiecesChangeNoBitOfACtcAnswer) {
  std::mt19937 random(11);
  for (int i = 0; i < frames_testing::Trials(300) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const CtcTable table = RandomCtc(static_cast<int>(random() % 25), 6, 0, random);
    const FrameOptions options = Plain(FrameKind::kCtc, 6);
    CtcSearch search(*FramePlan::Create(options));
    size_t next = 0;
    for (const int64_t piece : RandomPieces(static_cast<int64_t>(table.size()), random)) {
      search.AddFrames(piece);
      for (int64_t n = 0; n < piece; ++n) {
        ASSERT_FALSE(search.rows().empty());
        ASSERT_TRUE(search.Advance(table[next++]).ok());
      }
      EXPECT_TRUE(search.rows().empty());
    }
    search.Finish();
    EXPECT_EQ(search.Results(), RunCtc(options, table));
  }
}

bool BeginsWith(const Labels& labels, const Labels& begin) {
  return begin.size() <= labels.size() && std::equal(begin.begin(), begin.end(), labels.begin());
}

// Stable labels as they were after each frame: each goes on with the one before, and the answer
// with all of them.
void ExpectStable(const std::vector<Labels>& stable, const std::vector<FrameHypothesis>& answers) {
  for (size_t i = 1; i < stable.size(); ++i) {
    EXPECT_TRUE(BeginsWith(stable[i], stable[i - 1]));
  }
  for (const FrameHypothesis& answer : answers) {
    EXPECT_TRUE(BeginsWith(answer.labels, stable.back()));
  }
  if (answers.size() == 1) {
    EXPECT_EQ(answers[0].labels, stable.back());
  }
}

TEST(FrameContractTest, StableLabelsOfATransducerStay) {
  size_t num_early = 0;
  for (int i = 0; i < frames_testing::Trials(400) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    FrameOptions options = TransducerOptions(i);
    options.n_best = i % 8 < 4 ? 1 : 3;
    options.beam_size = 3;
    const Joiner joiner =
        RandomJoiner(static_cast<uint32_t>(i), 6, static_cast<int>(options.durations.size()), 0);
    TransducerRun run(options, joiner);
    std::vector<Labels> stable(1);
    for (int frame = 0; frame < 20; ++frame) {
      run.search().AddFrames(1);
      run.Run();
      Labels labels = stable.back();
      run.search().AddStableLabels(labels);
      stable.push_back(labels);
    }
    num_early += stable.back().size();
    run.search().Finish();
    run.Run();
    Labels labels = stable.back();
    run.search().AddStableLabels(labels);
    stable.push_back(labels);
    ExpectStable(stable, run.search().Results());
  }
  EXPECT_GT(num_early, static_cast<size_t>(frames_testing::Trials(400)));
}

TEST(FrameContractTest, StableLabelsOfCtcStay) {
  std::mt19937 random(12);
  size_t num_early = 0;
  for (int i = 0; i < frames_testing::Trials(400) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    FrameOptions options = Plain(FrameKind::kCtc, 6);
    options.n_best = i % 2 == 0 ? 1 : 3;
    options.beam_size = 3;
    CtcRun run(options);
    std::vector<Labels> stable(1);
    for (const std::vector<float>& row : RandomCtc(30, 6, 0, random)) {
      ASSERT_TRUE(run.Advance(row).ok());
      Labels labels = stable.back();
      run.search().AddStableLabels(labels);
      stable.push_back(labels);
    }
    num_early += stable.back().size();
    run.search().Finish();
    Labels labels = stable.back();
    run.search().AddStableLabels(labels);
    stable.push_back(labels);
    ExpectStable(stable, run.search().Results());
  }
  EXPECT_GT(num_early, static_cast<size_t>(frames_testing::Trials(400)));
}

// Says -1 of each label and -2 of the end.
class Evenly final : public LabelScorer {
 public:
  int64_t Start() const override { return 0; }
  int64_t Next(int64_t /*state*/, int32_t /*label*/) const override { return 0; }
  float LogProb(int64_t /*state*/, int32_t /*label*/) const override { return -1; }
  float LogProbOfEnd(int64_t /*state*/) const override { return -2; }
};

TEST(FrameContractTest, TheEndOfALabelScorerCountsOnceNoFrameIsLeft) {
  std::mt19937 random(14);
  FrameOptions options = Plain(FrameKind::kCtc, 6);
  options.label_scorers.push_back({"evenly", 0.5f, std::make_shared<Evenly>()});
  CtcRun run(options);
  const auto expect_end = [&run](double end) {
    const std::vector<FrameHypothesis> answers = run.search().Results();
    ASSERT_FALSE(answers.empty());
    for (const FrameHypothesis& answer : answers) {
      EXPECT_EQ(answer.scorer_sums[0], end - static_cast<double>(answer.labels.size()));
      EXPECT_NEAR(answer.score, answer.merged_log_prob + 0.5 * answer.scorer_sums[0], 1e-12);
    }
  };
  for (const std::vector<float>& row : RandomCtc(10, 6, 0, random)) {
    ASSERT_TRUE(run.Advance(row).ok());
    expect_end(0);
  }
  run.search().Finish();
  expect_end(-2);
}

// A search that is cut answers as one whose frames end there, scorers' ends aside.
TEST(FrameContractTest, ASearchThatIsCutAnswersWhatItHas) {
  std::mt19937 random(13);
  for (int i = 0; i < frames_testing::Trials(200) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const CtcTable table = RandomCtc(12, 6, 0, random);
    const FrameOptions ctc = Plain(FrameKind::kCtc, 6);
    CtcRun run(ctc);
    for (size_t frame = 0; frame < 7; ++frame) {
      ASSERT_TRUE(run.Advance(table[frame]).ok());
    }
    EXPECT_FALSE(run.search().done());
    EXPECT_EQ(run.search().Results(), RunCtc(ctc, CtcTable(table.begin(), table.begin() + 7)));

    const FrameOptions options = TransducerOptions(i % 2);
    const Joiner joiner = RandomJoiner(static_cast<uint32_t>(i), 6, 0, 0);
    TransducerRun cut(options, joiner);
    cut.search().AddFrames(7);
    cut.Run();
    EXPECT_FALSE(cut.search().done());
    EXPECT_EQ(cut.search().Results(), RunTransducer(options, joiner, 7));
  }
}

}  // namespace
}  // namespace beamwright::search
