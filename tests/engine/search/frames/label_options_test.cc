// Options of labels with a beam that holds everything, against all alignments, filtered and scored
// by what the options mean for whole label sequences.
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/search/frames/naive_frames.h"
#include "tests/engine/search/frames/naive_label_rules.h"
#include "tests/engine/search/frames/random_frame_options.h"
#include "tests/engine/search/frames/run_searches.h"

namespace beamwright::search {
namespace {

using frames_testing::AllCtc;
using frames_testing::AllTransducer;
using frames_testing::CtcTable;
using frames_testing::ExpectAll;
using frames_testing::Joiner;
using frames_testing::Labels;
using frames_testing::NaiveGain;
using frames_testing::NaiveLabelRules;
using frames_testing::NaiveRow;
using frames_testing::NaiveTransducer;
using frames_testing::RandomCtc;
using frames_testing::RandomFrameOptions;
using frames_testing::RandomJoiner;
using frames_testing::RunCtc;
using frames_testing::RunTransducer;
using frames_testing::WithLabelOptions;

// A temperature leaves f32 log-probabilities.
constexpr double kClose = 1e-5;

FrameOptions Wide(FrameKind kind, int number) {
  FrameOptions options;
  options.kind = kind;
  options.vocabulary_size = 3;
  options.blank = number % 3;
  options.beam_size = options.n_best = kMaxBeamSize;
  options.recombine = number % 4 == 0 ? Recombine::kMax : Recombine::kSum;
  return options;
}

std::vector<float> Changed(const NaiveLabelRules& rules, const std::vector<float>& row) {
  const std::vector<double> changed = rules.Row(row);
  return {changed.begin(), changed.end()};
}

NaiveGain GainOf(const NaiveLabelRules& rules) {
  return [&rules](const Labels& labels) {
    return rules.IsAnswer(labels) ? rules.Gain(labels, true)
                                  : -std::numeric_limits<double>::infinity();
  };
}

TEST(LabelOptionsTest, CtcAnswersWhatTheyLeave) {
  std::mt19937 random(6);
  int num_answers = 0;
  for (int i = 0; i < frames_testing::Trials(3000) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const RandomFrameOptions made =
        WithLabelOptions(Wide(FrameKind::kCtc, i), i % 2 == 0 ? 0.15 : 0.4, random);
    const CtcTable table =
        RandomCtc(static_cast<int>(random() % 6), 3, i % 5 == 0 ? 0.1 : 0, random);
    const NaiveLabelRules rules(made.options, made.entries, made.row_scorers);
    CtcTable changed;
    for (const std::vector<float>& row : table) {
      changed.push_back(Changed(rules, row));
    }
    const auto answers = RunCtc(made.options, table, made.row_scorers);
    num_answers += static_cast<int>(answers.size());
    ExpectAll(answers, AllCtc(changed, made.options.blank),
              made.options.recombine == Recombine::kMax, GainOf(rules), kClose);
  }
  EXPECT_GT(num_answers, frames_testing::Trials(5000));
}

TEST(LabelOptionsTest, TransducersAnswerWhatTheyLeave) {
  std::mt19937 random(7);
  int num_answers = 0;
  for (int i = 0; i < frames_testing::Trials(3000) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    FrameOptions wide = Wide(i % 3 == 2 ? FrameKind::kTokenAndDuration : FrameKind::kTransducer, i);
    NaiveTransducer model;
    model.vocabulary = 3;
    model.blank = wide.blank;
    model.num_frames = static_cast<int64_t>(random() % 4);
    if (i % 3 == 1) {
      wide.alignment_length_synchronous = true;
    } else {
      wide.max_symbols_per_frame = model.max_symbols = 1 + i % 2 * (model.num_frames < 3 ? 1 : 0);
    }
    if (i % 3 == 2) {
      wide.durations = model.durations = {0, 1, 2};
    }
    RandomFrameOptions made = WithLabelOptions(wide, i % 2 == 0 ? 0.15 : 0.4, random);
    made.options.max_length = std::min(made.options.max_length, 4);
    model.max_labels = static_cast<size_t>(made.options.max_length);
    const NaiveLabelRules rules(made.options, made.entries, made.row_scorers);
    const Joiner joiner =
        RandomJoiner(static_cast<uint32_t>(i), 3, static_cast<int>(model.durations.size()),
                     i % 5 == 0 ? 0.1 : 0);
    auto changed_row = std::make_shared<NaiveRow>();
    const Joiner changed = [&, changed_row](int64_t frame,
                                            const Labels& labels) -> const NaiveRow& {
      *changed_row = joiner(frame, labels);
      changed_row->log_probs = Changed(rules, changed_row->log_probs);
      return *changed_row;
    };
    const auto answers = RunTransducer(made.options, joiner, model.num_frames, made.row_scorers);
    num_answers += static_cast<int>(answers.size());
    ExpectAll(answers, AllTransducer(model, changed), made.options.recombine == Recombine::kMax,
              GainOf(rules), kClose);
  }
  EXPECT_GT(num_answers, frames_testing::Trials(10000));
}

}  // namespace
}  // namespace beamwright::search
