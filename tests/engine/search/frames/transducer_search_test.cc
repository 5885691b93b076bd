// TransducerSearch against all alignments, in each of its orders.
#include "engine/search/frames/transducer_search.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/search/frames/naive_frames.h"
#include "tests/engine/search/frames/run_searches.h"

namespace beamwright::search {
namespace {

using frames_testing::AllTransducer;
using frames_testing::ExpectAll;
using frames_testing::Joiner;
using frames_testing::Labels;
using frames_testing::NaiveRow;
using frames_testing::NaiveTransducer;
using frames_testing::RandomJoiner;
using frames_testing::RunTransducer;
using frames_testing::TransducerRun;

struct TinyCase {
  NaiveTransducer model;
  Joiner joiner;
  FrameOptions options;
};

TinyCase MakeTinyCase(uint32_t number, std::vector<int> durations) {
  std::mt19937 random(number);
  TinyCase made;
  NaiveTransducer& model = made.model;
  model.vocabulary = 2 + static_cast<int>(random() % 2);
  model.blank = static_cast<int>(random() % static_cast<uint32_t>(model.vocabulary));
  model.num_frames = static_cast<int64_t>(random() % 4);
  model.durations = std::move(durations);
  model.max_symbols = 1 + static_cast<int>(random() % 3);
  // So few labels that the widest beam holds all.
  while (model.num_frames * model.max_symbols > (model.durations.empty() ? 6 : 4)) {
    --model.max_symbols;
  }
  made.joiner = RandomJoiner(number, model.vocabulary, static_cast<int>(model.durations.size()),
                             number % 4 == 0 ? 0.2 : 0);
  FrameOptions& options = made.options;
  options.kind = model.durations.empty() ? FrameKind::kTransducer : FrameKind::kTokenAndDuration;
  options.vocabulary_size = model.vocabulary;
  options.blank = model.blank;
  options.durations = model.durations;
  options.max_symbols_per_frame = model.max_symbols;
  options.beam_size = options.n_best = kMaxBeamSize;
  options.recombine = number % 3 == 0 ? Recombine::kMax : Recombine::kSum;
  return made;
}

void ExpectEverything(const TinyCase& made) {
  ExpectAll(RunTransducer(made.options, made.joiner, made.model.num_frames),
            AllTransducer(made.model, made.joiner), made.options.recombine == Recombine::kMax);
}

TEST(TransducerSearchTest, AWideBeamFindsEveryLabelling) {
  for (uint32_t i = 0; i < static_cast<uint32_t>(frames_testing::Trials(3400)) && !HasFailure();
       ++i) {
    SCOPED_TRACE(i);
    ExpectEverything(MakeTinyCase(i, {}));
  }
}

TEST(TransducerSearchTest, AWideBeamFindsEveryLabellingWithDurations) {
  const std::vector<std::vector<int>> durations = {{0, 1, 2}, {1, 2}, {0, 1},
                                                   {3, 0, 2}, {2},    {0, 1, 4}};
  for (uint32_t i = 0; i < static_cast<uint32_t>(frames_testing::Trials(3400)) && !HasFailure();
       ++i) {
    SCOPED_TRACE(i);
    ExpectEverything(MakeTinyCase(i, durations[i % durations.size()]));
  }
}

// A label that lasts beyond the end by 0, 1 or 2 frames is one hypothesis there.
TEST(TransducerSearchTest, AlignmentsThatPassTheEndAreMerged) {
  FrameOptions options;
  options.kind = FrameKind::kTokenAndDuration;
  options.vocabulary_size = 2;
  options.durations = {1, 2, 3};
  options.beam_size = 2;
  const auto third = static_cast<float>(std::log(1.0 / 3));
  const NaiveRow row = {{std::log(0.4F), std::log(0.6F)}, {third, third, third}};
  const Joiner joiner = [&row](int64_t /*frame*/, const Labels& /*labels*/) -> const NaiveRow& {
    return row;
  };
  const std::vector<FrameHypothesis> answers = RunTransducer(options, joiner, 1);
  ASSERT_EQ(answers.size(), 1);
  EXPECT_EQ(answers[0].labels, (Labels{1}));
  EXPECT_NEAR(answers[0].merged_log_prob, std::log(0.6), 1e-6);
  EXPECT_NEAR(answers[0].log_prob, std::log(0.2), 1e-6);
}

// What lasts over a cut takes the first frames behind it.
TEST(TransducerSearchTest, ALabelThatLastsBeyondTheEndSaysSo) {
  FrameOptions options;
  options.kind = FrameKind::kTokenAndDuration;
  options.vocabulary_size = 2;
  options.durations = {1, 4};
  const float high = std::log(0.9F);
  const float low = std::log(0.1F);
  const NaiveRow silence = {{high, low}, {high, low}};
  const NaiveRow sound = {{low, high}, {low, high}};
  const Joiner joiner = [&](int64_t frame, const Labels& /*labels*/) -> const NaiveRow& {
    return frame == 2 ? sound : silence;
  };
  TransducerRun cut(options, joiner);
  cut.Feed({4});
  EXPECT_EQ(cut.search().Results()[0].labels, (Labels{1}));
  EXPECT_EQ(cut.search().overhang(), 2);  // frames 2 to 5 of 4
  TransducerSearch next(*FramePlan::Create(options), cut.search().overhang());
  next.AddFrames(6);
  ASSERT_EQ(next.rows().size(), 1);
  EXPECT_EQ(next.rows()[0].frame, 2);
  TransducerSearch nothing_left(*FramePlan::Create(options), cut.search().overhang());
  nothing_left.AddFrames(1);
  nothing_left.Finish();
  EXPECT_TRUE(nothing_left.done());
  EXPECT_EQ(nothing_left.Results().size(), 1);
}

TEST(TransducerSearchTest, AWideBeamFindsEveryLabellingInAlignmentOrder) {
  for (uint32_t i = 0; i < static_cast<uint32_t>(frames_testing::Trials(3400)) && !HasFailure();
       ++i) {
    SCOPED_TRACE(i);
    TinyCase made = MakeTinyCase(i, {});
    made.options.alignment_length_synchronous = true;
    made.options.max_symbols_per_frame = 1;
    made.model.max_symbols = 0;
    made.options.max_length = 1 + static_cast<int>(i % 4);
    made.model.max_labels = static_cast<size_t>(made.options.max_length);
    ExpectEverything(made);
  }
}

}  // namespace
}  // namespace beamwright::search
