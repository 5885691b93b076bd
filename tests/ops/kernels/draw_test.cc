// Draws against exact probabilities: chi-square over a hundred thousand of them (O10 of the
// search's oracles). Seeds are fixed, so that a test that passes passes always.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "ops/kernels/topk.h"

namespace beamwright::ops {
namespace {

using ::testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// The 99.9 % point of chi-square with n degrees of freedom (Wilson and Hilferty 1931).
double Critical(double n) {
  return n * std::pow(1 - 2 / (9 * n) + 3.09 * std::sqrt(2 / (9 * n)), 3);
}

std::vector<double> Softmax(const std::vector<float>& logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float x : logits) {
    p.push_back(std::exp(static_cast<double>(x)));
    sum += p.back();
  }
  for (double& x : p) {
    x /= sum;
  }
  return p;
}

std::vector<double> Renormalised(std::vector<double> p) {
  double sum = 0;
  for (const double x : p) {
    sum += x;
  }
  for (double& x : p) {
    x /= sum;
  }
  return p;
}

// How often each token is drawn first among `count` draws, one draw a position.
std::vector<int> Count(const std::vector<float>& logits, RowDraw draw, int count) {
  std::vector<int> counts(logits.size(), 0);
  RowRules rules;
  RowScan scan;
  for (int i = 0; i < count; ++i) {
    draw.position = static_cast<uint32_t>(i);
    rules.draw = draw;
    EXPECT_TRUE(ScanRow(logits, ScoreKind::kLogits, rules, 1, scan).ok());
    ++counts[static_cast<size_t>(scan.best.at(0).token)];
  }
  return counts;
}

void ExpectDistribution(const std::vector<int>& counts, const std::vector<double>& expected) {
  int total = 0;
  for (const int count : counts) {
    total += count;
  }
  double statistic = 0;
  double freedom = -1;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double mean = expected[i] * total;
    if (expected[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i;
      continue;
    }
    statistic += (counts[i] - mean) * (counts[i] - mean) / mean;
    ++freedom;
  }
  if (freedom > 0) {
    EXPECT_LT(statistic, Critical(freedom));
  }
}

const std::vector<float> kLogits = {1.0f, -0.5f, 2.0f, 0.0f, -kInfinity, 0.7f, 2.0f};

TEST(DrawTokens, SamplesHaveTheirProbabilities) {
  RowDraw draw;
  draw.kind = DrawKind::kSample;
  draw.seed = 1;
  ExpectDistribution(Count(kLogits, draw, 100000), Softmax(kLogits));
}

TEST(DrawTokens, TheLargestNoisyTokenIsASample) {
  RowDraw draw;
  draw.kind = DrawKind::kGumbel;
  draw.seed = 2;
  ExpectDistribution(Count(kLogits, draw, 100000), Softmax(kLogits));
}

TEST(DrawTokens, TopKThenTopPThenMinP) {
  const std::vector<double> p = Softmax(kLogits);
  RowDraw draw;
  draw.kind = DrawKind::kSample;
  draw.seed = 3;
  draw.top_k = 3;  // 2 and 6, then 0
  ExpectDistribution(Count(kLogits, draw, 20000), Renormalised({p[0], 0, p[2], 0, 0, 0, p[6]}));
  draw.top_p = 0.5f;  // of what top_k left: 2 has 0.42 of it, so that 6 is needed too
  ExpectDistribution(Count(kLogits, draw, 20000), Renormalised({0, 0, p[2], 0, 0, 0, p[6]}));
  draw.top_p = 0.4f;
  ExpectDistribution(Count(kLogits, draw, 1000), {0, 0, 1, 0, 0, 0, 0});
  draw.top_k = 0;
  draw.top_p = 1;
  draw.min_p = 0.3f;  // exp(0 - 2) is below it, exp(0.7 - 2) and exp(1 - 2) are not
  ExpectDistribution(Count(kLogits, draw, 20000),
                     Renormalised({p[0], 0, p[2], 0, 0, p[5] > 0.3 * p[2] ? p[5] : 0, p[6]}));
  draw.min_p = 0;
  draw.top_k = 1;  // of equals the lower token
  ExpectDistribution(Count(kLogits, draw, 1000), {0, 0, 1, 0, 0, 0, 0});
}

// Orders of two tokens without replacement: p_i p_j / (1 - p_i) (Plackett and Luce).
TEST(DrawTokens, NoisyBestAreASampleWithoutReplacement) {
  const std::vector<float> logits = {0.5f, 0.0f, -0.5f, 1.0f};
  const std::vector<double> p = Softmax(logits);
  std::map<std::pair<int, int>, int> counts;
  constexpr int kTrials = 100000;
  RowRules rules;
  rules.draw.kind = DrawKind::kGumbel;
  rules.draw.seed = 5;
  RowScan scan;
  for (int i = 0; i < kTrials; ++i) {
    rules.draw.position = static_cast<uint32_t>(i);
    ASSERT_TRUE(ScanRow(logits, ScoreKind::kLogits, rules, 2, scan).ok());
    ASSERT_EQ(scan.best.size(), 2u);
    EXPECT_GE(scan.best[0].rank_score, scan.best[1].rank_score);
    ++counts[{scan.best[0].token, scan.best[1].token}];
  }
  double statistic = 0;
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 4; ++j) {
      const double mean = i == j ? 0 : kTrials * p[i] * p[j] / (1 - p[i]);
      const int count = counts[{static_cast<int>(i), static_cast<int>(j)}];
      statistic += i == j ? count : (count - mean) * (count - mean) / mean;
    }
  }
  EXPECT_LT(statistic, Critical(11));
}

TEST(DrawTokens, DependOnSeedPositionAndStreamAlone) {
  RowRules rules;
  rules.draw.kind = DrawKind::kSample;
  rules.draw.seed = 7;
  rules.draw.position = 4;
  rules.draw.count = 50;
  const std::vector<float> flat(1000, 0.0f);
  RowScan together;
  ASSERT_TRUE(ScanRow(flat, ScoreKind::kLogits, rules, 0, together).ok());
  ASSERT_EQ(together.best.size(), 50u);
  rules.draw.count = 1;
  int changed = 0;
  for (uint32_t stream = 0; stream < 50; ++stream) {
    rules.draw.stream = stream;
    rules.draw.seed = 7;
    RowScan alone;
    ASSERT_TRUE(ScanRow(flat, ScoreKind::kLogits, rules, 0, alone).ok());
    EXPECT_EQ(alone.best[0], together.best[stream]);
    rules.draw.seed = 8;
    ASSERT_TRUE(ScanRow(flat, ScoreKind::kLogits, rules, 0, alone).ok());
    changed += alone.best[0] == together.best[stream] ? 0 : 1;
  }
  EXPECT_GT(changed, 45);
}

TEST(DrawTokens, RulesHoldAndNothingLeftIsNothingDrawn) {
  RowRules rules;
  rules.draw.kind = DrawKind::kSample;
  rules.draw.count = 1000;
  const std::vector<int32_t> allowed = {1, 3};
  rules.has_allowed = true;
  rules.allowed = allowed;
  RowScan scan;
  ASSERT_TRUE(ScanRow(kLogits, ScoreKind::kLogits, rules, 0, scan).ok());
  for (const Candidate& candidate : scan.best) {
    EXPECT_TRUE(candidate.token == 1 || candidate.token == 3);
    EXPECT_LT(candidate.log_prob, 0);
  }
  rules.allowed = {};
  ASSERT_TRUE(ScanRow(kLogits, ScoreKind::kLogits, rules, 0, scan).ok());
  EXPECT_THAT(scan.best, IsEmpty());
}

TEST(ScanRow, WithoutRenormalisationWhatIsLeftKeepsItsLogProbability) {
  const std::vector<float> logits = {1, 2, 3};
  const std::vector<double> p = Softmax(logits);
  const std::vector<LogitEdit> edits = {{2, EditKind::kBan, 0}, {0, EditKind::kScaleBySign, 2}};
  RowRules rules;
  rules.edits = edits;
  rules.renormalize = false;
  RowScan scan;
  ASSERT_TRUE(ScanRow(logits, ScoreKind::kLogits, rules, 3, scan).ok());
  ASSERT_EQ(scan.best.size(), 2u);
  EXPECT_NEAR(scan.best[0].log_prob, std::log(p[1]), 1e-6);
  EXPECT_NEAR(scan.best[1].log_prob, 2 * std::log(p[0]), 1e-6);
}

TEST(ScanRow, MassMovesARankAndNoLogProbability) {
  const std::vector<float> logits = {1, 2, 3};
  const std::vector<double> p = Softmax(logits);
  const std::vector<RankBonus> bonuses = {{0, 0.25f, 2.0f}};
  RowRules rules;
  rules.bonuses = bonuses;
  RowScan scan;
  ASSERT_TRUE(ScanRow(logits, ScoreKind::kLogits, rules, 3, scan).ok());
  EXPECT_EQ(scan.best[0].token, 0);
  EXPECT_NEAR(scan.best[0].log_prob, std::log(p[0]), 1e-6);
  EXPECT_NEAR(scan.best[0].rank_score, std::log(p[0] + 2) + 0.25, 1e-6);
}

}  // namespace
}  // namespace beamwright::ops
