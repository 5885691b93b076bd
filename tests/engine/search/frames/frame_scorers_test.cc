// CtcScorer and TransducerScorer against all alignments, and against sums from the other end.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "engine/search/frames/frame_score.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/search/frames/naive_frames.h"

namespace beamwright::search {
namespace {

using frames_testing::AllCtc;
using frames_testing::AllTransducer;
using frames_testing::CtcTable;
using frames_testing::Joiner;
using frames_testing::Labels;
using frames_testing::NaiveRow;
using frames_testing::NaiveSum;
using frames_testing::NaiveTransducer;
using frames_testing::RandomCtc;
using frames_testing::RandomJoiner;

constexpr double kImpossibleSum = -std::numeric_limits<double>::infinity();

FrameOptions CtcOptions(int vocabulary, int blank) {
  FrameOptions options;
  options.kind = FrameKind::kCtc;
  options.vocabulary_size = vocabulary;
  options.blank = blank;
  return options;
}

FrameScore ScoreCtc(const FrameOptions& options, const CtcTable& table, const Labels& labels) {
  CtcScorer scorer = *CtcScorer::Create(options, labels);
  for (const std::vector<float>& row : table) {
    EXPECT_TRUE(scorer.Advance(row).ok());
  }
  return scorer.Result();
}

FrameScore ScoreTransducer(const FrameOptions& options, const Joiner& joiner, int64_t num_frames,
                           const Labels& labels) {
  TransducerScorer scorer = *TransducerScorer::Create(options, labels);
  for (int64_t frame = 0; frame < num_frames; ++frame) {
    std::vector<ScoredRow> rows;
    for (size_t place = 0; place <= labels.size(); ++place) {
      const NaiveRow& row =
          joiner(frame, Labels(labels.begin(), labels.begin() + static_cast<int64_t>(place)));
      const int32_t next = place < labels.size() ? labels[place] : options.blank;
      rows.push_back({row.log_probs[static_cast<size_t>(options.blank)],
                      row.log_probs[static_cast<size_t>(next)], row.duration_log_probs});
    }
    EXPECT_TRUE(scorer.Advance(rows).ok());
  }
  return scorer.Result();
}

void ExpectScore(const FrameScore& score, const NaiveSum& sum) {
  EXPECT_NEAR(score.full_log_prob, std::log(sum.probability), 1e-6);
  EXPECT_NEAR(score.best_log_prob, sum.best, 1e-6);
  ASSERT_EQ(score.times.size(), sum.times.size());
  for (size_t i = 0; !sum.is_tied && i < score.times.size(); ++i) {
    EXPECT_EQ(score.times[i].first_frame, sum.times[i].frame);
    EXPECT_EQ(score.times[i].duration, sum.times[i].duration);
    EXPECT_NEAR(score.times[i].log_prob, sum.times[i].log_prob, 1e-5);
  }
}

void ExpectNoAlignment(const FrameScore& score) {
  EXPECT_EQ(score.full_log_prob, kImpossibleSum);
  EXPECT_EQ(score.best_log_prob, kImpossibleSum);
  EXPECT_TRUE(score.times.empty());
}

TEST(CtcScorerTest, EqualsAllAlignmentsOfTinyLattices) {
  std::mt19937 random(2);
  for (int i = 0; i < frames_testing::Trials(1500) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const int vocabulary = 2 + static_cast<int>(random() % 2);
    const int num_frames = static_cast<int>(random() % 6);
    const int blank = static_cast<int>(random() % static_cast<uint32_t>(vocabulary));
    const CtcTable table = RandomCtc(num_frames, vocabulary, i % 4 == 0 ? 0.2 : 0, random);
    const FrameOptions options = CtcOptions(vocabulary, blank);
    for (const auto& [labels, sum] : AllCtc(table, blank)) {
      ExpectScore(ScoreCtc(options, table, labels), sum);
    }
    const Labels too_long(static_cast<size_t>(num_frames) + 1, blank == 0 ? 1 : 0);
    ExpectNoAlignment(ScoreCtc(options, table, too_long));
  }
}

NaiveTransducer TinyTransducer(std::mt19937& random, const std::vector<int>& durations) {
  NaiveTransducer model;
  model.vocabulary = 2 + static_cast<int>(random() % 2);
  model.blank = static_cast<int>(random() % static_cast<uint32_t>(model.vocabulary));
  model.num_frames = static_cast<int64_t>(random() % 4);
  model.durations = durations;
  model.max_symbols = static_cast<int>(random() % 4);
  model.max_labels = 4;
  return model;
}

FrameOptions OptionsOf(const NaiveTransducer& model) {
  FrameOptions options;
  options.kind = model.durations.empty() ? FrameKind::kTransducer : FrameKind::kTokenAndDuration;
  options.vocabulary_size = model.vocabulary;
  options.blank = model.blank;
  options.durations = model.durations;
  options.max_symbols_per_frame = model.max_symbols == 0 ? kMaxSymbolsPerFrame : model.max_symbols;
  return options;
}

TEST(TransducerScorerTest, EqualsAllAlignmentsOfTinyLattices) {
  const std::vector<std::vector<int>> durations = {{}, {0, 1, 2}, {}, {1, 2}, {0, 2, 3}, {0, 1}};
  std::mt19937 random(3);
  for (uint32_t i = 0; i < static_cast<uint32_t>(frames_testing::Trials(2400)) && !HasFailure();
       ++i) {
    SCOPED_TRACE(i);
    const NaiveTransducer model = TinyTransducer(random, durations[i % durations.size()]);
    const Joiner joiner = RandomJoiner(
        i, model.vocabulary, static_cast<int>(model.durations.size()), i % 4 == 0 ? 0.2 : 0);
    FrameOptions options = OptionsOf(model);
    if (model.max_symbols == 0 && model.durations.empty() && i % 2 == 0) {
      options.max_symbols_per_frame = 1;
      options.alignment_length_synchronous = true;
    }
    for (const auto& [labels, sum] : AllTransducer(model, joiner)) {
      ExpectScore(ScoreTransducer(options, joiner, model.num_frames, labels), sum);
    }
    if (model.num_frames == 0) {
      ExpectNoAlignment(ScoreTransducer(options, joiner, 0, {model.blank == 0 ? 1 : 0}));
    }
  }
}

// The probability of what is left from the end of the frames backwards, in plain probabilities.
class Backward {
 public:
  Backward(const NaiveTransducer& model, const Joiner& joiner, const Labels& labels)
      : model_(model), joiner_(joiner), labels_(labels) {}

  double From(int64_t frame, size_t place, int in_frame) {
    if (frame >= model_.num_frames) {
      return place == labels_.size() ? 1 : 0;
    }
    const auto [it, is_new] = known_.try_emplace({frame, place, in_frame}, 0);
    if (is_new) {
      const double sum = Sum(frame, place, in_frame);
      known_[{frame, place, in_frame}] = sum;
    }
    return known_[{frame, place, in_frame}];
  }

 private:
  double Sum(int64_t frame, size_t place, int in_frame) {
    const NaiveRow& row =
        joiner_(frame, Labels(labels_.begin(), labels_.begin() + static_cast<int64_t>(place)));
    const double blank = std::exp(row.log_probs[static_cast<size_t>(model_.blank)]);
    const double label =
        place < labels_.size() ? std::exp(row.log_probs[static_cast<size_t>(labels_[place])]) : 0;
    const bool is_last = in_frame + 1 == model_.max_symbols;
    if (model_.durations.empty()) {
      return blank * From(frame + 1, place, 0) +
             (label == 0 ? 0
              : is_last  ? label * From(frame + 1, place + 1, 0)
                         : label * From(frame, place + 1, in_frame + 1));
    }
    double sum = 0;
    for (size_t i = 0; i < model_.durations.size(); ++i) {
      const int frames = model_.durations[i];
      const double chance = std::exp(row.duration_log_probs[i]);
      sum += blank * chance * From(frame + std::max(frames, 1), place, 0);
      if (label > 0) {
        sum += label * chance *
               (frames > 0 ? From(frame + frames, place + 1, 0)
                : is_last  ? From(frame + 1, place + 1, 0)
                           : From(frame, place + 1, in_frame + 1));
      }
    }
    return sum;
  }

  const NaiveTransducer& model_;
  const Joiner& joiner_;
  const Labels& labels_;
  std::map<std::tuple<int64_t, size_t, int>, double> known_;
};

TEST(TransducerScorerTest, EqualsTheSumFromTheEnd) {
  std::mt19937 random(4);
  for (uint32_t i = 0; i < static_cast<uint32_t>(frames_testing::Trials(200)) && !HasFailure();
       ++i) {
    SCOPED_TRACE(i);
    NaiveTransducer model;
    model.vocabulary = 6;
    model.blank = static_cast<int>(i % 6);
    model.num_frames = 5 + static_cast<int64_t>(random() % 40);
    model.durations = i % 2 == 0 ? std::vector<int>{} : std::vector<int>{0, 1, 2, 3, 4};
    model.max_symbols = static_cast<int>(random() % 5);
    const Joiner joiner = RandomJoiner(i, 6, static_cast<int>(model.durations.size()), 0);
    Labels labels;
    for (size_t n = random() % 9; n > 0; --n) {
      labels.push_back((model.blank + 1 + static_cast<int>(random() % 5)) % 6);
    }
    const double expected = std::log(Backward(model, joiner, labels).From(0, 0, 0));
    const FrameScore score = ScoreTransducer(OptionsOf(model), joiner, model.num_frames, labels);
    if (std::isinf(expected)) {
      ExpectNoAlignment(score);
    } else {
      EXPECT_NEAR(score.full_log_prob, expected, 1e-6);
      EXPECT_LE(score.best_log_prob, score.full_log_prob);
    }
  }
}

// p(the labels from `place` on, from `frame` on | the frame before was `last`).
double CtcBackward(const CtcTable& table, int blank, const Labels& labels) {
  const size_t num_frames = table.size();
  const size_t count = labels.size();
  // after[place][k]: labels before `place` are out; k = 1: the last of them was emitted just now.
  std::vector<std::vector<double>> after(count + 1, {0, 0});
  after[count] = {1, 1};
  for (size_t frame = num_frames; frame-- > 0;) {
    std::vector<std::vector<double>> here(count + 1, {0, 0});
    const auto p = [&](int32_t token) {
      return std::exp(static_cast<double>(table[frame][static_cast<size_t>(token)]));
    };
    for (size_t place = 0; place <= count; ++place) {
      for (size_t k = 0; k < 2; ++k) {
        double sum = p(blank) * after[place][0];
        const bool repeats = k == 1 && place > 0;
        if (repeats) {
          sum += p(labels[place - 1]) * after[place][1];
        }
        if (place < count && !(repeats && labels[place] == labels[place - 1])) {
          sum += p(labels[place]) * after[place + 1][1];
        }
        here[place][k] = sum;
      }
    }
    after = here;
  }
  return after[0][0];
}

TEST(CtcScorerTest, EqualsTheSumFromTheEnd) {
  std::mt19937 random(5);
  for (int i = 0; i < frames_testing::Trials(300) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const int blank = i % 5;
    const CtcTable table = RandomCtc(10 + static_cast<int>(random() % 60), 5, 0, random);
    Labels labels;
    for (size_t n = random() % 12; n > 0; --n) {
      labels.push_back((blank + 1 + static_cast<int>(random() % 4)) % 5);
    }
    const double expected = std::log(CtcBackward(table, blank, labels));
    const FrameScore score = ScoreCtc(CtcOptions(5, blank), table, labels);
    if (std::isinf(expected)) {
      ExpectNoAlignment(score);
    } else {
      EXPECT_NEAR(score.full_log_prob, expected, 1e-6);
    }
  }
}

TEST(FrameScorersTest, BadInputIsNamed) {
  using testing::HasSubstr;
  const FrameOptions ctc = CtcOptions(3, 0);
  EXPECT_THAT(CtcScorer::Create(ctc, {1, 3}).status().message(), HasSubstr("labels[1] is 3"));
  EXPECT_THAT(CtcScorer::Create(ctc, {0}).status().message(), HasSubstr("blank"));
  CtcScorer scorer = *CtcScorer::Create(ctc, {1});
  EXPECT_THAT(scorer.Advance({-1, -1}).message(), HasSubstr("frame 0: 2 values"));
  EXPECT_THAT(scorer.Advance({-1, std::nanf(""), -1}).message(), HasSubstr("frame 0, token 1"));
  ASSERT_TRUE(scorer.Advance({-1, -1, -1}).ok());
  EXPECT_THAT(scorer.Advance({-1, -1, 1}).message(), HasSubstr("frame 1, token 2: 1"));

  FrameOptions transducer = ctc;
  transducer.kind = FrameKind::kTokenAndDuration;
  transducer.durations = {0, 1};
  TransducerScorer other = *TransducerScorer::Create(transducer, {1});
  const std::vector<float> durations = {-1, -1};
  EXPECT_THAT(other.Advance({{-1, -1, durations}}).message(), HasSubstr("1 rows for 1 labels"));
  EXPECT_THAT(other.Advance({{-1, -1, durations}, {-1, -1, {}}}).message(),
              HasSubstr("row 1: 0 durations of 2"));
  EXPECT_THAT(other.Advance({{-1, std::nanf(""), durations}, {-1, -1, durations}}).message(),
              HasSubstr("frame 0, row 0"));
  // What stands for a label behind the last one is not read.
  EXPECT_TRUE(other.Advance({{-1, -1, durations}, {-1, std::nanf(""), durations}}).ok());
}

}  // namespace
}  // namespace beamwright::search
