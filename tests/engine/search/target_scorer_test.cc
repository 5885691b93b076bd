// Teacher forcing against plain sums.
#include "engine/search/target_scorer.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/search/random_options.h"
#include "tests/engine/search/reference_search.h"
#include "tests/engine/search/rules_driver.h"
#include "tests/engine/search/table_model.h"

namespace beamwright::search_testing {
namespace {

using search::FinishReason;
using search::Hypothesis;
using search::SearchOptions;
using search::TargetScorer;
using ::testing::HasSubstr;
using Tokens = std::vector<int32_t>;

SearchOptions Options() {
  SearchOptions options;
  options.vocabulary_size = 6;
  options.end_tokens = {0, 3};
  options.banned_tokens = {5};
  options.max_length = 1;
  return options;
}

TEST(TargetScorerTest, AddsUpTheLogProbabilitiesOfEachTarget) {
  for (uint64_t seed = 1; seed <= 500 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    const TableModel table(seed, 6, TableModel::Kind::kSoftmax);
    const RawModel model = [&](const Tokens& tokens) { return table.LogProbs(tokens, {}); };
    SearchOptions options = Options();
    options.length_penalty = static_cast<search::LengthPenalty>(random.In(0, 2));
    options.alpha = random.In(-4, 8) / 4.0;
    options.num_top_tokens = random.In(0, 3);
    std::vector<Tokens> targets(static_cast<size_t>(random.In(1, 6)));
    for (Tokens& target : targets) {
      for (int i = random.In(1, 7); i > 0; --i) {
        target.push_back(random.In(0, 4));
      }
    }
    TargetScorer scorer = *TargetScorer::Create(options, targets);
    ASSERT_TRUE(StepRows(model, {}, scorer).ok());
    ASSERT_EQ(scorer.results().size(), targets.size());
    for (size_t i = 0; i < targets.size(); ++i) {
      const Hypothesis& result = scorer.results()[i];
      EXPECT_EQ(result.tokens, targets[i]);
      double sum = 0;
      Tokens before;
      for (size_t t = 0; t < targets[i].size(); ++t) {
        std::vector<float> logits = table.LogProbs(before, {});
        logits[5] = -std::numeric_limits<float>::infinity();
        const float expected = PlainLogSoftmax(logits)[static_cast<size_t>(targets[i][t])];
        EXPECT_EQ(result.token_log_probs[t], expected);
        sum += static_cast<double>(expected);
        before.push_back(targets[i][t]);
      }
      EXPECT_EQ(result.sum, sum);
      EXPECT_NEAR(result.score, ReferenceScore(sum, static_cast<int>(targets[i].size()), options),
                  1e-9);
      const int32_t last = targets[i].back();
      EXPECT_EQ(result.reason == FinishReason::kEos, last == 0 || last == 3);
      EXPECT_EQ(result.top_tokens.size(),
                options.num_top_tokens > 0 ? targets[i].size() : size_t{0});
    }
  }
}

// The score has the scorers' sums by their weights; the model's sum stays the model's.
TEST(TargetScorerTest, ScorersCountByTheirWeights) {
  for (uint64_t seed = 1; seed <= 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    SearchOptions options = Options();
    options.length_penalty = static_cast<search::LengthPenalty>(random.In(0, 2));
    std::vector<TableModel> tables;
    DriveHooks hooks;
    for (uint64_t i = 0; i < 3; ++i) {
      tables.emplace_back(1000 * i + seed, 6, TableModel::Kind::kSoftmax);
      const TableModel table = tables.back();
      const RawModel said = [table](const Tokens& tokens) { return table.LogProbs(tokens, {}); };
      if (i > 0) {
        hooks.scorers.push_back(said);
        options.scorers.push_back({absl::StrCat(i), static_cast<float>(i == 1 ? 0.75 : -0.5)});
      }
    }
    hooks.weights = options.scorers;
    const RawModel model = [&](const Tokens& tokens) { return tables[0].LogProbs(tokens, {}); };
    const std::vector<Tokens> targets = {{1, 2, 0}, {4}, {2, 2, 4, 1}};
    TargetScorer scorer = *TargetScorer::Create(options, targets);
    ASSERT_TRUE(StepRows(model, hooks, scorer).ok());
    for (size_t i = 0; i < targets.size(); ++i) {
      const Hypothesis& result = scorer.results()[i];
      std::vector<double> sums(2);
      Tokens before;
      for (const int32_t token : targets[i]) {
        for (size_t s = 0; s < sums.size(); ++s) {
          sums[s] += double{tables[s + 1].LogProbs(before, {})[static_cast<size_t>(token)]};
        }
        before.push_back(token);
      }
      EXPECT_NEAR(result.scorer_sums[0], sums[0], 1e-6);
      EXPECT_NEAR(result.scorer_sums[1], sums[1], 1e-6);
      EXPECT_NEAR(result.score,
                  ReferenceScore(result.sum + 0.75 * sums[0] - 0.5 * sums[1],
                                 static_cast<int>(targets[i].size()), options),
                  1e-6);
    }
  }
}

TEST(TargetScorerTest, AnImpossibleTokenMakesItsTargetImpossible) {
  const float never = -std::numeric_limits<float>::infinity();
  const RawModel model = [&](const Tokens&) {
    return std::vector<float>{-1, never, -2, -1, -1, -1};
  };
  TargetScorer scorer = *TargetScorer::Create(Options(), {{2, 1, 0}, {2, 0}});
  ASSERT_TRUE(StepRows(model, {}, scorer).ok());
  EXPECT_EQ(scorer.results()[0].sum, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(scorer.results()[0].token_log_probs[1], never);
  EXPECT_TRUE(std::isfinite(scorer.results()[1].sum));
}

TEST(TargetScorerTest, CoverageCountsAsInASearch) {
  SearchOptions options = Options();
  options.coverage_penalty = 0.5;
  DriveHooks hooks;
  hooks.attention = [](const Tokens& tokens) {
    return tokens.size() % 2 == 0 ? std::vector<float>{0.25f, 0.75f}
                                  : std::vector<float>{0.5f, 0.5f};
  };
  const RawModel model = [](const Tokens&) { return std::vector<float>(6, -1); };
  TargetScorer scorer = *TargetScorer::Create(options, {{1, 0}, {1}, {2, 2, 0}});
  ASSERT_TRUE(StepRows(model, hooks, scorer).ok());
  EXPECT_DOUBLE_EQ(scorer.results()[0].coverage, 0.5 * std::log(0.75));
  EXPECT_DOUBLE_EQ(scorer.results()[1].coverage, 0.5 * (std::log(0.25) + std::log(0.75)));
  EXPECT_DOUBLE_EQ(scorer.results()[2].coverage, 0);
}

TEST(TargetScorerTest, WrongTargetsAreNamed) {
  const auto error = [](std::vector<Tokens> targets) {
    return std::string(TargetScorer::Create(Options(), std::move(targets)).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("targets: has 0 entries, must have 1 to 256"));
  EXPECT_THAT(error(std::vector<Tokens>(257, {1})), HasSubstr("has 257 entries"));
  EXPECT_THAT(error({{1}, {}}), HasSubstr("targets[1]: has 0 tokens"));
  EXPECT_THAT(error({{1, 6}}), HasSubstr("targets[0]: token 1 is 6, must be in [0, 6)"));
  EXPECT_THAT(error({{-1}}), HasSubstr("token 0 is -1"));
  EXPECT_THAT(error({{5}}), HasSubstr("is 5, which is never generated"));
}

TEST(TargetScorerTest, AModelThatGivesNoNumberIsRefused) {
  TargetScorer scorer = *TargetScorer::Create(Options(), {{1, 0}});
  const std::vector<float> watched = {std::numeric_limits<float>::quiet_NaN()};
  const search::RowCandidates row = {{}, {}, {}, watched, nullptr, {}};
  EXPECT_THAT(std::string(scorer.Advance({&row, 1}).message()),
              HasSubstr("step 0, row 0: a log-probability is nan"));
}

}  // namespace
}  // namespace beamwright::search_testing
