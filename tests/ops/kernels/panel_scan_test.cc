// Scores before the scan of a row: the best of a block, and several rows mixed into one.

#include "ops/kernels/panel_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "ops/base/vector_isa.h"

namespace beamwright::ops {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

std::vector<TokenScore> Sorted(const std::vector<float>& values, size_t most) {
  std::vector<TokenScore> all;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != kNone) {
      all.push_back({values[i], static_cast<int32_t>(i)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const TokenScore& a, const TokenScore& b) { return a.value > b.value; });
  all.resize(std::min(all.size(), most));
  return all;
}

class BestScores : public ::testing::TestWithParam<VectorIsa> {
 protected:
  const ScopedVectorIsa isa_{GetParam()};
};

// Blocks of any length, values that tie, that fall, that rise (each one enters) and that are
// missing, lists shorter and longer than what is ranked at once.
TEST_P(BestScores, AreThoseOfASort) {
  std::mt19937 random(5);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<float> values(static_cast<size_t>(pick(0, 300)));
    const int kind = pick(0, 4);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<float>(i);
      values[i] = kind == 0   ? static_cast<float>(pick(-3, 3))
                  : kind == 1 ? -at
                  : kind == 2 ? at
                              : std::normal_distribution<float>(0, 1e10f)(random);
      if (kind == 4 && pick(0, 2) == 0) {
        values[i] = kNone;
      }
    }
    const size_t most = static_cast<size_t>(pick(0, 1) == 0 ? pick(0, 16) : pick(17, 70));
    std::vector<TokenScore> best;
    for (size_t first = 0; first < values.size();) {
      const size_t count =
          std::min(static_cast<size_t>(pick(0, 1) == 0 ? pick(1, kScanBlock) : kScanBlock),
                   values.size() - first);
      KeepBest(absl::MakeConstSpan(values).subspan(first, count), static_cast<int32_t>(first), most,
               best);
      first += count;
    }
    ASSERT_EQ(best, Sorted(values, most)) << "round " << round << ", most " << most;
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, BestScores,
                         ::testing::Values(VectorIsa::kPlain, VectorIsa::kAvx2,
                                           VectorIsa::kAvx512));

using ::testing::HasSubstr;

constexpr float kUnbounded = std::numeric_limits<float>::infinity();

std::vector<double> PlainLogProbs(const std::vector<float>& scores, ScoreKind kind) {
  double sum = 0;
  std::vector<double> result;
  for (const float score : scores) {
    sum += std::exp(double{score});
  }
  for (const float score : scores) {
    result.push_back(kind == ScoreKind::kLogits     ? double{score} - std::log(sum)
                     : kind == ScoreKind::kLogProbs ? double{score}
                                                    : std::log(double{score}));
  }
  return result;
}

std::vector<float> RandomScores(std::mt19937& random, size_t count, ScoreKind kind) {
  std::normal_distribution<float> normal(0, 4);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<float> scores(count);
  for (float& score : scores) {
    score = kind == ScoreKind::kLogits ? normal(random) : uniform(random);
    score = kind == ScoreKind::kLogProbs ? std::log(score) : score;
  }
  return scores;
}

TEST(MixScores, MeansAreThoseOfTheirFormulas) {
  std::mt19937 random(1);
  std::vector<float> scratch;
  std::vector<float> logits;
  for (int trial = 0; trial < 100; ++trial) {
    const size_t count = 1 + random() % 300;
    std::vector<std::vector<float>> scores;
    std::vector<MixPart> parts;
    for (int part = 0; part < 3; ++part) {
      const auto kind = static_cast<ScoreKind>(random() % 3);
      scores.push_back(RandomScores(random, count, kind));
      parts.push_back({{}, kind, static_cast<float>(1 + random() % 4) / 8});
    }
    for (size_t part = 0; part < 3; ++part) {
      parts[part].scores = scores[part];
    }
    for (const MixKind kind : {MixKind::kLogProbs, MixKind::kProbs}) {
      ASSERT_TRUE(MixScores(absl::MakeSpan(parts), kind, scratch, logits).ok());
      for (size_t i = 0; i < count; ++i) {
        double expected = 0;
        for (size_t part = 0; part < 3; ++part) {
          const double log_prob = PlainLogProbs(scores[part], parts[part].kind)[i];
          expected += double{parts[part].weight} *
                      (kind == MixKind::kProbs ? std::exp(log_prob) : log_prob);
        }
        expected = kind == MixKind::kProbs ? std::log(expected) : expected;
        EXPECT_NEAR(logits[i], expected, 4e-6 * (1 + std::abs(expected)));
      }
    }
  }
}

TEST(MixScores, WhatOneCannotSayAllTogetherMay) {
  const std::vector<float> first = {0, -kUnbounded};
  const std::vector<float> second = {std::log(0.5f), std::log(0.5f)};
  std::vector<MixPart> parts = {{first, ScoreKind::kLogProbs, 0.5f},
                                {second, ScoreKind::kLogProbs, 0.5f}};
  std::vector<float> scratch;
  std::vector<float> logits;
  ASSERT_TRUE(MixScores(absl::MakeSpan(parts), MixKind::kLogProbs, scratch, logits).ok());
  EXPECT_EQ(logits[1], -kUnbounded);
  ASSERT_TRUE(MixScores(absl::MakeSpan(parts), MixKind::kProbs, scratch, logits).ok());
  EXPECT_NEAR(logits[1], std::log(0.25), 1e-6);
}

TEST(MixScores, BadScoresAreNamedWithTheirDecoder) {
  const std::vector<float> good = {0, 0};
  std::vector<float> scratch;
  std::vector<float> logits;
  const auto error = [&](const std::vector<float>& bad, ScoreKind kind) {
    std::vector<MixPart> parts = {{good, ScoreKind::kLogits, 1}, {bad, kind, 1}};
    return std::string(
        MixScores(absl::MakeSpan(parts), MixKind::kProbs, scratch, logits).message());
  };
  EXPECT_THAT(error({0, std::nanf("")}, ScoreKind::kLogits),
              HasSubstr("decoder 1: scores[1]: nan"));
  EXPECT_THAT(error({kUnbounded, 0}, ScoreKind::kLogits), HasSubstr("scores[0]: inf"));
  EXPECT_THAT(error({0, 1}, ScoreKind::kLogProbs), HasSubstr("not a log-probability"));
  EXPECT_THAT(error({0, -1}, ScoreKind::kProbabilities), HasSubstr("not a probability"));
  EXPECT_THAT(error({0}, ScoreKind::kLogits), HasSubstr("decoder 1 gave 1 scores"));
}

}  // namespace

}  // namespace beamwright::ops
