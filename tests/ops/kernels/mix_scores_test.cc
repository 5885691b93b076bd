#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "ops/kernels/panel_scan.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

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
  const std::vector<float> first = {0, -kInfinity};
  const std::vector<float> second = {std::log(0.5f), std::log(0.5f)};
  std::vector<MixPart> parts = {{first, ScoreKind::kLogProbs, 0.5f},
                                {second, ScoreKind::kLogProbs, 0.5f}};
  std::vector<float> scratch;
  std::vector<float> logits;
  ASSERT_TRUE(MixScores(absl::MakeSpan(parts), MixKind::kLogProbs, scratch, logits).ok());
  EXPECT_EQ(logits[1], -kInfinity);
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
  EXPECT_THAT(error({kInfinity, 0}, ScoreKind::kLogits), HasSubstr("scores[0]: inf"));
  EXPECT_THAT(error({0, 1}, ScoreKind::kLogProbs), HasSubstr("not a log-probability"));
  EXPECT_THAT(error({0, -1}, ScoreKind::kProbabilities), HasSubstr("not a probability"));
  EXPECT_THAT(error({0}, ScoreKind::kLogits), HasSubstr("decoder 1 gave 1 scores"));
}

}  // namespace
}  // namespace beamwright::ops
