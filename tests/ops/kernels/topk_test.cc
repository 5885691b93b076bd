#include "ops/kernels/topk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Options {
  std::vector<LogitEdit> edits;
  bool has_allowed = false;
  std::vector<int32_t> allowed;
  float temperature = 1;
  std::vector<RankBonus> bonuses;
  std::vector<int32_t> watched;

  RowRules Rules() const { return {edits, has_allowed, allowed, temperature, bonuses, watched}; }
};

struct Reference {
  std::vector<double> log_probs;  // of every token
  std::vector<int32_t> order;     // allowed tokens, best first by the scan's own f32 scores
  double log_sum_exp = 0;
};

// Rules one token at a time, in double; a stable sort of everything.
Reference Sort(std::vector<float> logits, const Options& options) {
  std::vector<bool> banned(logits.size(), options.has_allowed);
  for (const int32_t token : options.allowed) {
    banned[static_cast<size_t>(token)] = false;
  }
  for (const LogitEdit& edit : options.edits) {
    float& x = logits[static_cast<size_t>(edit.token)];
    if (edit.kind == EditKind::kAdd) x += edit.value;
    if (edit.kind == EditKind::kScaleBySign) x = x < 0 ? x * edit.value : x / edit.value;
    if (edit.kind == EditKind::kBan || edit.kind == EditKind::kExclude) {
      banned[static_cast<size_t>(edit.token)] = true;
    }
  }
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = banned[i] ? -kInfinity : logits[i] / options.temperature;
    sum += std::exp(double{logits[i]});
  }
  Reference result;
  result.log_sum_exp = std::log(sum);
  const float shift = static_cast<float>(result.log_sum_exp);
  std::vector<float> score;
  for (size_t i = 0; i < logits.size(); ++i) {
    result.log_probs.push_back(logits[i] - result.log_sum_exp);
    score.push_back(logits[i] - shift);
    if (logits[i] > -kInfinity) result.order.push_back(static_cast<int32_t>(i));
  }
  for (const RankBonus& bonus : options.bonuses) {
    score[static_cast<size_t>(bonus.token)] += bonus.value;
  }
  std::stable_sort(result.order.begin(), result.order.end(), [&](int32_t a, int32_t b) {
    return score[static_cast<size_t>(a)] > score[static_cast<size_t>(b)];
  });
  return result;
}

TEST(ScanRow, EqualsAPlainSort) {
  std::mt19937 engine(7);
  const auto random = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(engine);
  };
  for (int trial = 0; trial < 800; ++trial) {
    const int vocabulary = random(1, 900);
    std::vector<float> logits;
    for (int i = 0; i < vocabulary; ++i) {
      // Multiples of 1/4: ties happen, and edits and temperatures of 2 stay exact.
      logits.push_back(random(0, 30) == 0 ? -kInfinity : static_cast<float>(random(-20, 20)) / 4);
    }
    Options options;
    const auto token = [&] { return random(0, vocabulary - 1); };
    for (int i = random(0, 4); i > 0 && trial % 2 == 0; --i) {
      options.edits.push_back({token(), static_cast<EditKind>(random(0, 3)), 2.0f});
    }
    if (trial % 3 == 0) {
      options.has_allowed = true;
      for (int i = 0; i < vocabulary; i += random(1, 5)) options.allowed.push_back(i);
    }
    options.temperature = trial % 5 == 0 ? 2.0f : 1.0f;
    if (trial % 4 == 1) {
      options.bonuses = {{token(), 1.5f}};
      const int other = token();
      if (other != options.bonuses[0].token) options.bonuses.push_back({other, -0.5f});
    }
    options.watched = {token(), token()};
    const Reference expected = Sort(logits, options);
    const size_t k = static_cast<size_t>(random(0, 20));
    RowScan scan;
    ASSERT_TRUE(
        ScanRow(logits, ScoreKind::kLogits, options.Rules(), static_cast<int>(k), scan).ok());
    ASSERT_EQ(scan.best.size(), std::min(k, expected.order.size()));
    for (size_t i = 0; i < scan.best.size(); ++i) {
      const size_t best = static_cast<size_t>(scan.best[i].token);
      EXPECT_EQ(scan.best[i].token, expected.order[i]) << "trial " << trial << " rank " << i;
      EXPECT_NEAR(scan.best[i].log_prob, expected.log_probs[best], 2e-6);
      EXPECT_LE(scan.best[i].log_prob, 0.0f);
      float bonus = 0;
      for (const RankBonus& b : options.bonuses) {
        bonus = static_cast<size_t>(b.token) == best ? b.value : bonus;
      }
      EXPECT_EQ(scan.best[i].rank_score, scan.best[i].log_prob + bonus);
    }
    for (size_t i = 0; i < 2; ++i) {
      const double log_prob = expected.log_probs[static_cast<size_t>(options.watched[i])];
      if (std::isinf(log_prob) || std::isnan(log_prob)) {
        EXPECT_EQ(scan.watched[i], -kInfinity);
      } else {
        EXPECT_NEAR(scan.watched[i], log_prob, 2e-6);
      }
    }
    if (!expected.order.empty()) {
      EXPECT_NEAR(scan.log_sum_exp, expected.log_sum_exp, 2e-6);
    }
  }
}

TEST(ScanRow, AddedScoresMoveRanksAlone) {
  std::mt19937 engine(9);
  std::normal_distribution<float> normal(0, 3);
  for (int trial = 0; trial < 200; ++trial) {
    const size_t vocabulary = 1 + engine() % 500;
    std::vector<float> logits(vocabulary);
    std::vector<float> added(vocabulary);
    std::vector<RankBonus> bonuses;
    for (size_t i = 0; i < vocabulary; ++i) {
      logits[i] = engine() % 20 == 0 ? -kInfinity : normal(engine);
      added[i] = engine() % 20 == 0 ? -kInfinity : normal(engine);
      if (engine() % 50 == 0) bonuses.push_back({static_cast<int32_t>(i), normal(engine)});
    }
    RowScan scan;
    const size_t k = engine() % 30;
    ASSERT_TRUE(ScanRow(logits, ScoreKind::kLogits, {.bonuses = bonuses, .added = added},
                        static_cast<int>(k), scan)
                    .ok());
    std::vector<float> ranks(vocabulary);
    std::vector<int32_t> order;
    for (size_t i = 0; i < vocabulary; ++i) {
      ranks[i] = logits[i] - scan.log_sum_exp;
      for (const RankBonus& bonus : bonuses) {
        ranks[i] += static_cast<size_t>(bonus.token) == i ? bonus.value : 0;
      }
      ranks[i] += added[i];
      if (ranks[i] > -kInfinity) order.push_back(static_cast<int32_t>(i));
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return ranks[static_cast<size_t>(a)] > ranks[static_cast<size_t>(b)];
    });
    ASSERT_EQ(scan.best.size(), std::min(k, order.size()));
    for (size_t i = 0; i < scan.best.size(); ++i) {
      const auto token = static_cast<size_t>(order[i]);
      EXPECT_EQ(scan.best[i],
                (Candidate{order[i], logits[token] - scan.log_sum_exp, ranks[token]}));
    }
  }
}

TEST(ScanRow, TiesGoToTheLowerToken) {
  RowScan scan;
  std::vector<float> logits(200, 1.0f);
  ASSERT_TRUE(ScanRow(logits, ScoreKind::kLogits, {}, 3, scan).ok());
  EXPECT_EQ(scan.best[0].token, 0);
  EXPECT_EQ(scan.best[2].token, 2);
  // A bonus of 0 changes no order, though the token is scanned apart.
  const std::vector<RankBonus> bonuses = {{1, 0.0f}};
  ASSERT_TRUE(ScanRow(logits, ScoreKind::kLogits, {.bonuses = bonuses}, 3, scan).ok());
  EXPECT_EQ(scan.best[1].token, 1);
}

TEST(ScanRow, WhatIsBarredIsNeverReturned) {
  RowScan scan;
  const std::vector<float> logits = {0, 5, -kInfinity};
  const std::vector<LogitEdit> edits = {{1, EditKind::kBan, 0}, {1, EditKind::kAdd, 3}};
  const std::vector<RankBonus> bonuses = {{1, 100.0f}, {2, 100.0f}};
  ASSERT_TRUE(
      ScanRow(logits, ScoreKind::kLogits, {.edits = edits, .bonuses = bonuses}, 5, scan).ok());
  ASSERT_EQ(scan.best.size(), 1u);
  EXPECT_EQ(scan.best[0], (Candidate{0, 0.0f, 0.0f}));
  ASSERT_TRUE(ScanRow(logits, ScoreKind::kLogits, {.has_allowed = true}, 5, scan).ok());
  EXPECT_THAT(scan.best, IsEmpty());
}

TEST(ScanRow, KindsOfScores) {
  RowScan scan;
  const std::vector<float> probabilities = {0.25f, 0.0f, 0.5f, 0.25f};
  ASSERT_TRUE(ScanRow(probabilities, ScoreKind::kProbabilities, {}, 4, scan).ok());
  ASSERT_EQ(scan.best.size(), 3u);
  EXPECT_EQ(scan.best[0].token, 2);
  EXPECT_NEAR(scan.best[0].log_prob, std::log(0.5), 1e-6);
  // Log-probabilities are taken as they are, and renormalised only where a rule changes them.
  const std::vector<float> logs = {-1.0f, -2.0f};
  ASSERT_TRUE(ScanRow(logs, ScoreKind::kLogProbs, {}, 2, scan).ok());
  EXPECT_EQ(scan.best[0].log_prob, -1.0f);
  const std::vector<LogitEdit> ban = {{1, EditKind::kBan, 0}};
  ASSERT_TRUE(ScanRow(logs, ScoreKind::kLogProbs, {.edits = ban}, 2, scan).ok());
  EXPECT_EQ(scan.best[0].log_prob, 0.0f);
  EXPECT_THAT(
      std::string(ScanRow({logs.data(), 2}, ScoreKind::kProbabilities, {}, 1, scan).message()),
      HasSubstr("scores[0]: -1 is not a probability"));
  // Unless a token is excluded, which has no share even where there is no other softmax.
  const std::vector<LogitEdit> exclude = {{1, EditKind::kExclude, 0}};
  ASSERT_TRUE(
      ScanRow(logs, ScoreKind::kLogProbs, {.edits = exclude, .renormalize = false}, 2, scan).ok());
  EXPECT_EQ(scan.best[0].log_prob, 0.0f);
  ASSERT_TRUE(
      ScanRow(logs, ScoreKind::kLogProbs, {.edits = ban, .renormalize = false}, 2, scan).ok());
  EXPECT_EQ(scan.best[0].log_prob, -1.0f);
  const std::vector<float> logits = {0.5f};
  EXPECT_THAT(std::string(ScanRow(logits, ScoreKind::kLogProbs, {}, 1, scan).message()),
              HasSubstr("scores[0]: 0.5 is not a log-probability"));
}

TEST(ScanRow, BadScoresAndRulesAreNamed) {
  RowScan scan;
  const auto error = [&](std::vector<float> logits, const RowRules& rules) {
    const absl::Status status = ScanRow(logits, ScoreKind::kLogits, rules, 1, scan);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({0, std::nanf("")}, {}), HasSubstr("scores[1]: nan"));
  EXPECT_THAT(error({kInfinity, 0}, {}), HasSubstr("scores[0]: inf"));
  const std::vector<LogitEdit> ban = {{1, EditKind::kBan, 0}};
  EXPECT_THAT(error({0, std::nanf("")}, {.edits = ban}), HasSubstr("scores[1]: nan"));
  const std::vector<LogitEdit> zero = {{0, EditKind::kScaleBySign, 0}};
  EXPECT_THAT(error({1, 0}, {.edits = zero}), HasSubstr("scores[0]: inf"));
  const std::vector<LogitEdit> far = {{2, EditKind::kBan, 0}};
  EXPECT_THAT(error({1, 0}, {.edits = far}), HasSubstr("edits: token 2 is outside [0, 2)"));
  const std::vector<int32_t> below = {-1};
  EXPECT_THAT(error({1, 0}, {.has_allowed = true, .allowed = below}),
              HasSubstr("allowed: token -1"));
  EXPECT_THAT(error({1, 0}, {.watched = below}), HasSubstr("watched: token -1"));
  const std::vector<RankBonus> bonus = {{9, 1}};
  EXPECT_THAT(error({1, 0}, {.bonuses = bonus}), HasSubstr("bonuses: token 9"));
  EXPECT_THAT(error({1, 0}, {.temperature = 0}), HasSubstr("temperature"));
  const std::vector<float> short_one = {0};
  EXPECT_THAT(error({1, 0}, {.added = short_one}), HasSubstr("added: 1 elements for 2 tokens"));
  const std::vector<float> nan = {0, std::nanf("")};
  EXPECT_THAT(error({1, 0}, {.added = nan}), HasSubstr("added: scores[1]: nan"));
}

}  // namespace

// Draws against exact probabilities: chi-square over a hundred thousand of them (O10 of the
// search's oracles). Seeds are fixed, so that a test that passes passes always.

namespace {

using ::testing::IsEmpty;

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
