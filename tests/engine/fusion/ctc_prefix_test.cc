// CTC prefix scores against all alignments there are: every way of giving each frame a column,
// collapsed to its text.
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "engine/fusion/row_scorers.h"
#include "gtest/gtest.h"

namespace beamwright::fusion {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int kEnd = 0;

CtcFrames RandomFrames(std::mt19937& random, int num_frames, int num_columns, int blank) {
  CtcFrames frames;
  frames.num_columns = num_columns;
  frames.blank = blank;
  std::uniform_real_distribution<float> uniform(0.01f, 1);
  for (int t = 0; t < num_frames; ++t) {
    std::vector<float> line(static_cast<size_t>(num_columns));
    float sum = 0;
    for (float& value : line) {
      value = uniform(random);
      sum += value;
    }
    for (const float value : line) {
      frames.probs.push_back(value / sum);
    }
  }
  return frames;
}

// The text of an alignment: repeats once, blanks gone.
Tokens Collapse(const Tokens& alignment, int blank) {
  Tokens text;
  int32_t before = blank;
  for (const int32_t column : alignment) {
    if (column != blank && column != before) {
      text.push_back(column);
    }
    before = column;
  }
  return text;
}

struct Alignment {
  Tokens text;
  double prob;
};

std::vector<Alignment> AllAlignments(const CtcFrames& frames) {
  std::vector<Alignment> all;
  const auto num_frames = static_cast<size_t>(frames.num_frames());
  const std::function<void(const Tokens&, double)> visit = [&](const Tokens& start, double prob) {
    if (start.size() == num_frames) {
      all.push_back({Collapse(start, frames.blank), prob});
      return;
    }
    for (int32_t column = 0; column < frames.num_columns; ++column) {
      Tokens next = start;
      next.push_back(column);
      visit(next,
            prob * double{frames.probs[start.size() * static_cast<size_t>(frames.num_columns) +
                                       static_cast<size_t>(column)]});
    }
  };
  visit({}, 1);
  return all;
}

double PrefixProb(const std::vector<Alignment>& all, const Tokens& prefix) {
  double prob = 0;
  for (const Alignment& alignment : all) {
    const bool begins = alignment.text.size() >= prefix.size() &&
                        std::equal(prefix.begin(), prefix.end(), alignment.text.begin());
    prob += begins ? alignment.prob : 0;
  }
  return prob;
}

double ExactProb(const std::vector<Alignment>& all, const Tokens& text) {
  double prob = 0;
  for (const Alignment& alignment : all) {
    prob += alignment.text == text ? alignment.prob : 0;
  }
  return prob;
}

void ExpectLog(float actual, double expected_prob) {
  if (expected_prob < 1e-15) {
    EXPECT_LT(actual, -25);
  } else {
    EXPECT_NEAR(actual, std::log(expected_prob), 1e-5);
  }
}

TEST(CtcPrefixTest, EveryPrefixHasTheProbabilityOfItsAlignments) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 30; ++trial) {
    const int num_columns = 3 + trial % 2;
    const int blank = trial % 3 == 0 ? 0 : num_columns - 1;  // column 0 is the end token's
    const CtcFrames frames = RandomFrames(random, 1 + trial % 6, num_columns, blank);
    std::vector<Alignment> all = AllAlignments(frames);
    constexpr int kVocabulary = 5;  // tokens without a column too
    for (int walk = 0; walk < 6; ++walk) {
      CtcPrefixScorer scorer(frames, {kEnd});
      Tokens text;
      for (int length = 0; length < 4; ++length) {
        std::vector<float> actual(kVocabulary);
        scorer.Score(0, absl::MakeSpan(actual));
        const double before = PrefixProb(all, text);
        if (before < 1e-12) {
          break;
        }
        ExpectLog(actual[kEnd], ExactProb(all, text) / before);
        for (int32_t token = 1; token < kVocabulary; ++token) {
          Tokens next = text;
          next.push_back(token);
          const bool possible = token < num_columns && token != blank;
          ExpectLog(actual[static_cast<size_t>(token)],
                    possible ? PrefixProb(all, next) / before : 0);
        }
        text.push_back(1 + static_cast<int32_t>(random() % 2));
        scorer.Advance({0}, {text.back()});
      }
    }
  }
}

// The conditional log-probabilities of a whole hypothesis add up to that of its text.
TEST(CtcPrefixTest, SumsAreTheProbabilityOfTheText) {
  std::mt19937 random(2);
  const CtcFrames frames = RandomFrames(random, 7, 4, 3);
  const std::vector<Alignment> all = AllAlignments(frames);
  for (const Tokens& text : {Tokens{1}, Tokens{1, 1}, Tokens{2, 1, 1, 2}, Tokens{}}) {
    CtcPrefixScorer scorer(frames, {kEnd});
    std::vector<float> scores(4);
    double sum = 0;
    for (const int32_t token : text) {
      scorer.Score(0, absl::MakeSpan(scores));
      sum += double{scores[static_cast<size_t>(token)]};
      scorer.Advance({0}, {token});
    }
    scorer.Score(0, absl::MakeSpan(scores));
    EXPECT_NEAR(sum + double{scores[kEnd]}, std::log(ExactProb(all, text)), 1e-5);
  }
}

TEST(CtcPrefixTest, RowsAreMovedRepeatedAndDropped) {
  std::mt19937 random(3);
  const CtcFrames frames = RandomFrames(random, 9, 5, 4);
  CtcPrefixScorer scorer(frames, {kEnd});
  std::vector<Tokens> rows(1);
  const std::vector<std::pair<Tokens, Tokens>> steps = {
      {{0, 0, 0}, {1, 2, 3}}, {{2, 0, 0, 1}, {3, 1, 2, 2}}, {{3, 3}, {1, 2}}};
  for (const auto& [parents, tokens] : steps) {
    scorer.Advance(parents, tokens);
    std::vector<Tokens> next;
    for (size_t row = 0; row < parents.size(); ++row) {
      next.push_back(rows[static_cast<size_t>(parents[row])]);
      next.back().push_back(tokens[row]);
      CtcPrefixScorer alone(frames, {kEnd});
      for (const int32_t token : next.back()) {
        alone.Advance({0}, {token});
      }
      std::vector<float> actual(5);
      std::vector<float> expected(5);
      scorer.Score(static_cast<int>(row), absl::MakeSpan(actual));
      alone.Score(0, absl::MakeSpan(expected));
      EXPECT_EQ(actual, expected);
    }
    rows = next;
  }
}

// A thousand frames: probabilities far below what a double holds.
TEST(CtcPrefixTest, LongSourcesDoNotUnderflow) {
  std::mt19937 random(4);
  const CtcFrames frames = RandomFrames(random, 1000, 30, 29);
  CtcPrefixScorer scorer(frames, {kEnd});
  std::vector<float> scores(30);
  double sum = 0;
  for (int32_t i = 0; i < 300; ++i) {
    scorer.Score(0, absl::MakeSpan(scores));
    const int32_t token = 1 + i % 28;
    ASSERT_GT(scores[static_cast<size_t>(token)], -std::numeric_limits<float>::infinity()) << i;
    ASSERT_LE(scores[static_cast<size_t>(token)], 0);
    sum += double{scores[static_cast<size_t>(token)]};
    scorer.Advance({0}, {token});
  }
  scorer.Score(0, absl::MakeSpan(scores));
  EXPECT_LT(sum + double{scores[kEnd]}, -500);
}

TEST(CtcPrefixTest, ARowThatFramesCannotSpellIsImpossible) {
  CtcFrames frames;
  frames.num_columns = 3;
  frames.blank = 2;
  frames.probs = {0, 1, 0, 0, 1, 0};
  CtcPrefixScorer scorer(frames, {kEnd});
  std::vector<float> scores(3);
  scorer.Advance({0}, {1});
  scorer.Score(0, absl::MakeSpan(scores));
  EXPECT_EQ(scores[kEnd], 0) << "certain";
  EXPECT_EQ(scores[1], -std::numeric_limits<float>::infinity()) << "there is no blank between";
  scorer.Advance({0}, {1});
  scorer.Score(0, absl::MakeSpan(scores));
  EXPECT_EQ(scores[kEnd], -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace beamwright::fusion
