// Searches whose beams drop hypotheses, with random options, against naive beam searches.
#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/search/frames/naive_beam.h"
#include "tests/engine/search/frames/naive_frames.h"
#include "tests/engine/search/frames/naive_label_rules.h"
#include "tests/engine/search/frames/random_frame_options.h"
#include "tests/engine/search/frames/run_searches.h"

namespace beamwright::search {
namespace {

using frames_testing::CtcTable;
using frames_testing::Joiner;
using frames_testing::NaiveBeamAnswer;
using frames_testing::NaiveCtcBeam;
using frames_testing::NaiveLabelRules;
using frames_testing::NaiveTransducerBeam;
using frames_testing::RandomCtc;
using frames_testing::RandomFrameOptions;
using frames_testing::RandomJoiner;
using frames_testing::RunCtc;
using frames_testing::RunTransducer;
using frames_testing::WithLabelOptions;

FrameOptions Narrow(FrameKind kind, std::mt19937& random) {
  FrameOptions options;
  options.kind = kind;
  options.vocabulary_size = 3 + static_cast<int>(random() % 5);
  options.blank = static_cast<int32_t>(random() % static_cast<uint32_t>(options.vocabulary_size));
  options.beam_size = 1 + static_cast<int>(random() % 6);
  options.n_best = 1 + static_cast<int>(random() % static_cast<uint32_t>(options.beam_size));
  options.expansion = static_cast<int>(random() % static_cast<uint32_t>(options.vocabulary_size));
  options.frame_beam = random() % 3 == 0 ? 1.0 + static_cast<double>(random() % 8) : 0;
  options.recombine = random() % 3 == 0 ? Recombine::kMax : Recombine::kSum;
  options.length_penalty = static_cast<LengthPenalty>(random() % 3);
  options.alpha = 0.25 * static_cast<double>(random() % 8);
  return options;
}

void ExpectSame(const std::vector<FrameHypothesis>& answers,
                const std::vector<NaiveBeamAnswer>& expected) {
  ASSERT_EQ(answers.size(), expected.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(answers[i].labels, expected[i].labels);
    EXPECT_NEAR(answers[i].merged_log_prob, expected[i].mass, 3e-5);
    EXPECT_NEAR(answers[i].log_prob, expected[i].best, 3e-5);
    EXPECT_NEAR(answers[i].score, expected[i].score, 3e-5);
  }
}

TEST(NarrowBeamTest, CtcKeepsWhatItsDefinitionSays) {
  std::mt19937 random(8);
  for (int i = 0; i < frames_testing::Trials(4000) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const double chance = i % 3 == 0 ? 0 : i % 3 == 1 ? 0.1 : 0.3;
    const RandomFrameOptions made =
        WithLabelOptions(Narrow(FrameKind::kCtc, random), chance, random);
    const CtcTable table = RandomCtc(static_cast<int>(random() % 12), made.options.vocabulary_size,
                                     i % 5 == 0 ? 0.1 : 0, random);
    const NaiveLabelRules rules(made.options, made.entries, made.row_scorers);
    ExpectSame(RunCtc(made.options, table, made.row_scorers),
               NaiveCtcBeam(made.options, rules, table));
  }
}

TEST(NarrowBeamTest, TransducersKeepWhatTheirDefinitionSays) {
  const std::vector<std::vector<int>> durations = {{0, 1, 2}, {1, 2, 4}, {0, 2}, {4, 1, 2, 3, 0}};
  std::mt19937 random(9);
  for (int i = 0; i < frames_testing::Trials(4000) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    FrameOptions narrow =
        Narrow(i % 3 == 2 ? FrameKind::kTokenAndDuration : FrameKind::kTransducer, random);
    narrow.recombine = random() % 4 == 0 ? Recombine::kNone : narrow.recombine;
    if (i % 3 == 1) {
      narrow.alignment_length_synchronous = true;
      narrow.frame_beam = 0;
    } else {
      narrow.max_symbols_per_frame = 1 + static_cast<int>(random() % 3);
    }
    if (i % 3 == 2) {
      narrow.durations = durations[static_cast<size_t>(i) / 3 % durations.size()];
    }
    const double chance = i % 4 == 0 ? 0 : i % 4 == 1 ? 0.1 : 0.3;
    RandomFrameOptions made = WithLabelOptions(narrow, chance, random);
    const auto num_frames = static_cast<int64_t>(random() % 10);
    if (i % 3 == 1) {
      made.options.max_length =
          std::max(static_cast<int>(made.options.prefix.size()),
                   std::min(made.options.max_length, static_cast<int>(random() % 12) + 1));
    }
    const Joiner joiner =
        RandomJoiner(static_cast<uint32_t>(i), made.options.vocabulary_size,
                     static_cast<int>(made.options.durations.size()), i % 5 == 0 ? 0.1 : 0);
    const NaiveLabelRules rules(made.options, made.entries, made.row_scorers);
    ExpectSame(RunTransducer(made.options, joiner, num_frames, made.row_scorers),
               NaiveTransducerBeam(made.options, rules, joiner, num_frames));
  }
}

}  // namespace
}  // namespace beamwright::search
