// What holds between options of searches over frames, and what greedy search is.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/search/frames/naive_frames.h"
#include "tests/engine/search/frames/run_searches.h"

namespace beamwright::search {
namespace {

using frames_testing::CtcTable;
using frames_testing::Joiner;
using frames_testing::Labels;
using frames_testing::NaiveRow;
using frames_testing::RandomCtc;
using frames_testing::RandomJoiner;
using frames_testing::RunCtc;
using frames_testing::RunTransducer;
using testing::HasSubstr;

constexpr float kNever = -std::numeric_limits<float>::infinity();

FrameOptions Options(FrameKind kind, int vocabulary, int beam_size) {
  FrameOptions options;
  options.kind = kind;
  options.vocabulary_size = vocabulary;
  options.beam_size = options.n_best = beam_size;
  return options;
}

size_t ArgMax(const std::vector<float>& values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

TEST(FrameLawsTest, BeamOneOfATransducerIsAnArgmaxLoop) {
  for (uint32_t seed = 0;
       seed < static_cast<uint32_t>(frames_testing::Trials(300)) && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    FrameOptions options = Options(FrameKind::kTransducer, 5, 1);
    options.recombine = static_cast<Recombine>(seed % 3);
    const Joiner joiner = RandomJoiner(seed, 5, 0, 0);
    Labels labels;
    double sum = 0;
    for (int64_t frame = 0; frame < 20; ++frame) {
      const std::vector<float>& row = joiner(frame, labels).log_probs;
      const size_t best = ArgMax(row);
      sum += row[best];
      if (best != 0) {
        labels.push_back(static_cast<int32_t>(best));
      }
    }
    const auto answers = RunTransducer(options, joiner, 20);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].labels, labels);
    EXPECT_NEAR(answers[0].log_prob, sum, 1e-9);
  }
}

TEST(FrameLawsTest, BeamOneEmitsUpToItsSymbolsInAFrame) {
  for (uint32_t seed = 0;
       seed < static_cast<uint32_t>(frames_testing::Trials(300)) && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    FrameOptions options = Options(FrameKind::kTransducer, 5, 1);
    options.max_symbols_per_frame = 3;
    const Joiner joiner = RandomJoiner(seed, 5, 0, 0);
    Labels labels;
    for (int64_t frame = 0; frame < 10; ++frame) {
      for (int symbol = 0; symbol < 3; ++symbol) {
        const size_t best = ArgMax(joiner(frame, labels).log_probs);
        if (best == 0) {
          break;
        }
        labels.push_back(static_cast<int32_t>(best));
      }
    }
    EXPECT_EQ(RunTransducer(options, joiner, 10)[0].labels, labels);
  }
}

TEST(FrameLawsTest, BeamOneWithDurationsTakesTheBestOfBoth) {
  for (uint32_t seed = 0;
       seed < static_cast<uint32_t>(frames_testing::Trials(300)) && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    FrameOptions options = Options(FrameKind::kTokenAndDuration, 5, 1);
    options.durations = {1, 2, 4};
    const Joiner joiner = RandomJoiner(seed, 5, 3, 0);
    Labels labels;
    double sum = 0;
    for (int64_t frame = 0; frame < 20;) {
      const NaiveRow row = joiner(frame, labels);
      const size_t best = ArgMax(row.log_probs);
      const size_t duration = ArgMax(row.duration_log_probs);
      sum += row.log_probs[best] + row.duration_log_probs[duration];
      frame += options.durations[duration];
      if (best != 0) {
        labels.push_back(static_cast<int32_t>(best));
      }
    }
    const auto answers = RunTransducer(options, joiner, 20);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].labels, labels);
    EXPECT_NEAR(answers[0].log_prob, sum, 1e-5);
  }
}

TEST(FrameLawsTest, MergedSumsAreAtLeastTheBestPath) {
  for (uint32_t seed = 0;
       seed < static_cast<uint32_t>(frames_testing::Trials(100)) && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    FrameOptions options = Options(FrameKind::kTransducer, 5, 4);
    options.max_symbols_per_frame = 1 + static_cast<int>(seed % 2);
    const Joiner joiner = RandomJoiner(seed, 5, 0, 0);
    for (const FrameHypothesis& answer : RunTransducer(options, joiner, 15)) {
      EXPECT_GE(answer.merged_log_prob, answer.log_prob);
      EXPECT_EQ(answer.score, answer.merged_log_prob);
    }
    for (const Recombine recombine : {Recombine::kMax, Recombine::kNone}) {
      options.recombine = recombine;
      const auto answers = RunTransducer(options, joiner, 15);
      for (const FrameHypothesis& answer : answers) {
        EXPECT_EQ(answer.merged_log_prob, answer.log_prob);
        EXPECT_EQ(std::count_if(
                      answers.begin(), answers.end(),
                      [&](const FrameHypothesis& other) { return other.labels == answer.labels; }),
                  1);
      }
    }
  }
}

// Without merging the beam fills with alignments of the same labels; with it, with labels.
TEST(FrameLawsTest, MergingLeavesRoomForOtherLabels) {
  size_t merged = 0;
  size_t apart = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    FrameOptions options = Options(FrameKind::kTransducer, 5, 8);
    const Joiner joiner = RandomJoiner(seed, 5, 0, 0);
    merged += RunTransducer(options, joiner, 15).size();
    options.recombine = Recombine::kNone;
    apart += RunTransducer(options, joiner, 15).size();
  }
  EXPECT_EQ(merged, 800u);  // all of the beam
  EXPECT_LT(apart, 780u);
}

TEST(FrameLawsTest, TimesAscendAndAddUp) {
  std::mt19937 random(14);
  for (int i = 0; i < frames_testing::Trials(200) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const CtcTable table = RandomCtc(20, 5, 0, random);
    for (const FrameHypothesis& answer : RunCtc(Options(FrameKind::kCtc, 5, 6), table)) {
      ASSERT_EQ(answer.times.size(), answer.labels.size());
      double sum = 0;
      std::vector<bool> is_label(table.size(), false);
      int64_t end = 0;
      for (size_t n = 0; n < answer.times.size(); ++n) {
        const LabelTime& time = answer.times[n];
        EXPECT_GE(time.first_frame, end);
        EXPECT_GT(time.duration, 0);
        end = time.first_frame + time.duration;
        sum += time.log_prob;
        for (int64_t frame = time.first_frame; frame < end; ++frame) {
          is_label[static_cast<size_t>(frame)] = true;
        }
      }
      for (size_t frame = 0; frame < table.size(); ++frame) {
        sum += is_label[frame] ? 0 : table[frame][0];
      }
      EXPECT_NEAR(sum, answer.log_prob, 1e-4);
    }
  }
}

TEST(FrameLawsTest, ABlankPenaltyMakesAnswersLonger) {
  size_t plain = 0;
  size_t lifted = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    FrameOptions options = Options(FrameKind::kTransducer, 4, 4);
    const Joiner joiner = RandomJoiner(seed, 4, 0, 0);
    plain += RunTransducer(options, joiner, 15)[0].labels.size();
    options.blank_penalty = 3;
    lifted += RunTransducer(options, joiner, 15)[0].labels.size();
  }
  EXPECT_GT(lifted, plain + 200);
}

TEST(FrameInputTest, NoFrameAtAllIsAnEmptyAnswer) {
  for (const FrameKind kind : {FrameKind::kTransducer, FrameKind::kCtc}) {
    const FrameOptions options = Options(kind, 4, 4);
    const auto answers = kind == FrameKind::kCtc
                             ? RunCtc(options, {})
                             : RunTransducer(options, RandomJoiner(1, 4, 0, 0), 0);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_TRUE(answers[0].labels.empty());
    EXPECT_EQ(answers[0].log_prob, 0);
  }
}

TEST(FrameInputTest, ACtcRowThatIsNoneIsNamedAndChangesNothing) {
  const FrameOptions options = Options(FrameKind::kCtc, 3, 4);
  CtcSearch search(*FramePlan::Create(options));
  const std::vector<float> good = {-1, -1, -1.5f};
  EXPECT_THAT(search.Advance(good).message(), HasSubstr("frame 0 has not been added"));
  search.AddFrames(3);
  ASSERT_TRUE(search.Advance(good).ok());
  const auto before = search.Results();
  EXPECT_THAT(search.Advance({-1, std::nanf(""), -1}).message(), HasSubstr("frame 1, token 1"));
  EXPECT_THAT(search.Advance({-1, -1, INFINITY}).message(), HasSubstr("frame 1, token 2: inf"));
  EXPECT_THAT(search.Advance({0.5f, -1, -1}).message(), HasSubstr("frame 1, token 0: 0.5"));
  EXPECT_THAT(search.Advance({-1, -1}).message(), HasSubstr("frame 1: 2 values"));
  const absl::Status nothing = search.Advance({kNever, kNever, kNever});
  EXPECT_TRUE(absl::IsFailedPrecondition(nothing));
  EXPECT_THAT(nothing.message(), HasSubstr("frame 1: no hypothesis can go on"));
  EXPECT_EQ(search.Results(), before);
  // A log-softmax may round up; a blank may be impossible.
  ASSERT_TRUE(search.Advance({kNever, 0.005f, -9}).ok());
  ASSERT_TRUE(search.Advance(good).ok());
  search.Finish();
  for (const FrameHypothesis& answer : search.Results()) {
    EXPECT_FALSE(answer.labels.empty());
    EXPECT_LE(answer.log_prob, 0);
  }
}

TEST(FrameInputTest, ATransducersRowThatIsNoneIsNamedAndChangesNothing) {
  FrameOptions options = Options(FrameKind::kTokenAndDuration, 3, 2);
  options.durations = {0, 1};
  TransducerSearch search(*FramePlan::Create(options));
  search.AddFrames(2);
  const std::vector<int32_t> labels = {1, 2};
  const std::vector<float> log_probs = {-1, -2};
  const std::vector<float> blank = {-0.5f};
  const std::vector<float> durations = {-1, -0.5f};
  const FrameCandidates good = {labels, log_probs, blank, durations, nullptr};
  const auto refused = [&](const FrameCandidates& row) {
    const absl::Status status = search.Advance({row});
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  EXPECT_THAT(std::string(search.Advance({}).message()), HasSubstr("0 rows, the round has 1"));
  FrameCandidates row = good;
  const std::vector<float> nan = {-1, std::nanf("")};
  row.log_probs = nan;
  EXPECT_THAT(refused(row), HasSubstr("frame 0, row 0, label 2: nan"));
  row = good;
  const std::vector<float> positive = {0.5f};
  row.watched = positive;
  EXPECT_THAT(refused(row), HasSubstr("frame 0, row 0, label 0: 0.5"));
  row = good;
  row.duration_log_probs = nan;
  EXPECT_THAT(refused(row), HasSubstr("frame 0, row 0, duration 1: nan"));
  row = good;
  row.duration_log_probs = blank;
  EXPECT_THAT(refused(row), HasSubstr("1 durations of 2"));
  row = good;
  row.watched = {};
  EXPECT_THAT(refused(row), HasSubstr("0 watched of 1"));
  row = good;
  const std::vector<int32_t> outside = {1, 3};
  row.labels = outside;
  EXPECT_THAT(refused(row), HasSubstr("label 3 is outside the vocabulary of 3"));
  row = good;
  const std::vector<float> never = {kNever, kNever};
  row.duration_log_probs = never;
  EXPECT_TRUE(absl::IsFailedPrecondition(search.Advance({row})));
  EXPECT_EQ(search.frame(), 0);
  EXPECT_EQ(search.rows().size(), 1u);
  EXPECT_TRUE(search.Advance({good}).ok());
}

TEST(FrameInputTest, ABlankOfProbabilityZeroIsNeverTaken) {
  FrameOptions options = Options(FrameKind::kTransducer, 3, 8);
  const NaiveRow row = {{kNever, -0.5f, -0.9f}, {}};
  const Joiner joiner = [&](int64_t, const Labels&) -> const NaiveRow& { return row; };
  for (const FrameHypothesis& answer : RunTransducer(options, joiner, 5)) {
    EXPECT_EQ(answer.labels.size(), 5u);
  }
  options.blank_penalty = 2;
  EXPECT_EQ(RunTransducer(options, joiner, 5)[0].labels, Labels({1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace beamwright::search
