// What a scan finds of scores of any size, and of tokens that have no share in any sum, against the
// rules applied in f64, one token at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "ops/kernels/topk.h"

namespace beamwright::ops {
namespace {

constexpr double kBarred = -std::numeric_limits<double>::infinity();

struct PlainRules {
  std::vector<LogitEdit> edits;
  float temperature = 1;
  bool renormalize = true;
  std::vector<int32_t> watched;  // all tokens

  RowRules View() const {
    return {
        .edits = edits, .temperature = temperature, .watched = watched, .renormalize = renormalize};
  }
};

// Less the log-sum-exp; the largest goes first, next to which the rest may be nothing.
void NormaliseInDouble(std::vector<double>& values) {
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (double& value : values) {
    value -= value > kBarred ? largest : 0;
    sum += std::exp(value);
  }
  for (double& value : values) value -= value > kBarred ? std::log(sum) : 0;
}

// Rules one token at a time, in double.
std::vector<double> LogProbsInDouble(const std::vector<float>& scores, const PlainRules& rules,
                                     ScoreKind kind = ScoreKind::kLogits) {
  std::vector<double> values(scores.begin(), scores.end());
  std::vector<bool> barred(scores.size(), false);
  bool any_excluded = false;
  for (const LogitEdit& edit : rules.edits) {
    if (edit.kind == EditKind::kExclude) {
      values[static_cast<size_t>(edit.token)] = kBarred;
      any_excluded = true;
    }
  }
  if (!rules.renormalize && (any_excluded || kind == ScoreKind::kLogits)) {
    NormaliseInDouble(values);
  }
  for (const LogitEdit& edit : rules.edits) {
    double& x = values[static_cast<size_t>(edit.token)];
    if (edit.kind == EditKind::kAdd) x += edit.value;
    if (edit.kind == EditKind::kScaleBySign) x = x < 0 ? x * edit.value : x / edit.value;
    if (edit.kind == EditKind::kBan) barred[static_cast<size_t>(edit.token)] = true;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = barred[i] ? kBarred : values[i] / rules.temperature;
  }
  if (rules.renormalize) NormaliseInDouble(values);
  return values;
}

void ExpectScan(const std::vector<double>& expected, double error, const RowScan& scan) {
  std::vector<size_t> possible;
  for (size_t i = 0; i < expected.size(); ++i) {
    // Farther below the best than f32 reaches, on the way too: of probability 0.
    if (expected[i] > -1e33) possible.push_back(i);
  }
  ASSERT_GE(scan.best.size(), possible.size());
  std::vector<double> found(expected.size(), kBarred);
  for (const Candidate& candidate : scan.best) {
    found[static_cast<size_t>(candidate.token)] = candidate.log_prob;
    EXPECT_LE(candidate.log_prob, 0);
  }
  for (const size_t token : possible) {
    EXPECT_NEAR(found[token], expected[token], error - 1e-6 * expected[token]) << token;
    EXPECT_EQ(static_cast<double>(scan.watched[token]), found[token]) << token;
  }
}

// What is excluded has no share in the sum that is taken before other rules work, whatever the
// model gives.
TEST(ScanRange, WhatIsExcludedHasNoShare) {
  std::mt19937 engine(11);
  const auto random = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(engine);
  };
  for (int trial = 0; trial < 600; ++trial) {
    const int vocabulary = random(2, 700);
    const bool are_logs = trial % 3 == 0;
    std::vector<float> scores;
    PlainRules rules;
    rules.renormalize = trial % 2 == 0;
    for (int i = 0; i < vocabulary; ++i) {
      scores.push_back(static_cast<float>(are_logs ? -random(8, 60) : random(-30, 30)) / 8);
      rules.watched.push_back(i);
    }
    const auto token = [&] { return random(0, vocabulary - 1); };
    for (int i = random(1, 3); i > 0; --i) {
      rules.edits.push_back({token(), EditKind::kExclude, 0});
    }
    for (int i = random(0, 3); i > 0; --i) {
      rules.edits.push_back({token(), static_cast<EditKind>(random(1, 3)), 2.0f});
    }
    rules.temperature = trial % 5 == 0 ? 0.5f : 1.0f;
    const ScoreKind kind = are_logs ? ScoreKind::kLogProbs : ScoreKind::kLogits;
    RowScan scan;
    ASSERT_TRUE(ScanRow(scores, kind, rules.View(), vocabulary, scan).ok());
    ExpectScan(LogProbsInDouble(scores, rules, kind), 2e-6, scan);
    // Without another softmax, and nothing that changes values, the bits are those with one.
    std::erase_if(rules.edits,
                  [](const LogitEdit& edit) { return edit.kind != EditKind::kExclude; });
    rules.temperature = 1;
    rules.renormalize = false;
    ASSERT_TRUE(ScanRow(scores, kind, rules.View(), vocabulary, scan).ok());
    const std::vector<Candidate> before = scan.best;
    rules.renormalize = true;
    ASSERT_TRUE(ScanRow(scores, kind, rules.View(), vocabulary, scan).ok());
    EXPECT_EQ(scan.best, before);
  }
}

// How far f32 can separate log-probabilities of such scores: by the spacing of the row's largest,
// unless that is beyond f32 and taken off first.
double SpacingOf(const std::vector<float>& scores, const PlainRules& rules) {
  if (!rules.renormalize) {
    return 1e4 * std::abs(std::ldexp(double{*std::max_element(scores.begin(), scores.end())}, -23));
  }
  PlainRules plain = rules;
  plain.renormalize = false;
  double largest = kBarred;
  for (const double value : LogProbsInDouble(scores, plain, ScoreKind::kLogProbs)) {
    largest = std::max(largest, value);
  }
  const bool fits = std::abs(largest) <= double{std::numeric_limits<float>::max()};
  return fits ? std::ldexp(std::abs(largest), -22) : 0;
}

// Rules drive no finite score out of the range of its result.
TEST(ScanRange, ScoresOfAnySizeStandAnyRule) {
  std::mt19937 engine(12);
  const auto random = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(engine);
  };
  const float largest = std::numeric_limits<float>::max();
  for (int trial = 0; trial < 2000; ++trial) {
    const int vocabulary = random(1, 6);
    std::vector<float> scores;
    PlainRules rules;
    const float sign = static_cast<float>(random(-1, 1));
    for (int i = 0; i < vocabulary; ++i) {
      const float magnitudes[] = {1, 1e30f, 3e38f, largest, 0};
      const float magnitude = magnitudes[random(0, 4)];
      const float own = sign == 0 ? static_cast<float>(2 * random(0, 1) - 1) : sign;
      scores.push_back(magnitude == 0 ? -std::numeric_limits<float>::infinity() : own * magnitude);
      rules.watched.push_back(i);
    }
    const float temperatures[] = {0.01f, 1, 100};
    rules.temperature = temperatures[random(0, 2)];
    rules.renormalize = random(0, 3) > 0;
    const float penalties[] = {0.01f, 0.5f, 100};
    for (int i = random(0, vocabulary); i > 0; --i) {
      rules.edits.push_back({i - 1, EditKind::kScaleBySign, penalties[random(0, 2)]});
    }
    if (random(0, 2) == 0) {
      rules.edits.push_back({random(0, vocabulary - 1), EditKind::kBan, 0});
    }
    RowScan scan;
    const absl::Status status = ScanRow(scores, ScoreKind::kLogits, rules.View(), vocabulary, scan);
    ASSERT_TRUE(status.ok()) << status;
    ExpectScan(LogProbsInDouble(scores, rules), 1e-6 + SpacingOf(scores, rules), scan);
  }
}

}  // namespace
}  // namespace beamwright::ops
