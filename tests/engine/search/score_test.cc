// The bound of the safe stop rule against hypotheses that gain the most they can.

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "engine/search/n_best_list.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/search/random_options.h"
#include "tests/engine/search/rules_driver.h"
#include "tests/engine/search/table_model.h"

namespace beamwright::search {
namespace {

// Rewards are added token by token, so their sum may round above their product with the number of
// tokens: the bound must hold for the sum.
TEST(ScoreTest, NoHypothesisScoresAboveTheBoundHoweverItsRewardsRound) {
  std::mt19937 random(49);
  std::uniform_real_distribution<double> gain(0, 3);
  std::uniform_real_distribution<double> start(-30, 0);
  int num_tight = 0;
  for (int trial = 0; trial < 3000 && !HasFailure(); ++trial) {
    SCOPED_TRACE(trial);
    SearchOptions options;
    options.vocabulary_size = 2;
    options.max_length = 40;
    options.length_penalty = static_cast<LengthPenalty>(trial % 3);
    options.alpha = trial % 2 == 0 ? 1 : -0.5;
    options.word_reward = trial % 5 == 0 ? 0.3 : 0;
    const double most = gain(random);
    const ScoreTable scores(options, {/*any=*/true, most});
    const double begin = start(random);
    const int length = static_cast<int>(random() % 39);
    const double bound = scores.Bound(begin, length);
    double total = begin;
    double best = -std::numeric_limits<double>::infinity();
    for (int n = length + 1; n <= options.max_length; ++n) {
      total += most;
      best = std::max(best, scores.Normalise(total, n));
    }
    ASSERT_LE(best, bound);
    num_tight += best > bound - 1e-6 * (1 + std::abs(bound)) ? 1 : 0;
  }
  EXPECT_EQ(num_tight, 3000) << "a bound that is far above stops nothing";
}

}  // namespace

}  // namespace beamwright::search

namespace beamwright::search_testing {

// The coverage penalty against plain enumeration of all sequences, and what it leaves of `safe`.

namespace {

using search::LengthPenalty;
using search::SearchOptions;
using ::testing::HasSubstr;
using Tokens = std::vector<int32_t>;

constexpr int kEndToken = 0;
constexpr int kVocabulary = 4;
constexpr int kPositions = 3;

struct Models {
  explicit Models(uint64_t seed)
      : tokens(seed, kVocabulary, TableModel::Kind::kSoftmax),
        attention(seed + 1000003, kPositions, TableModel::Kind::kSoftmax) {}

  RawModel Raw() const {
    return [this](const Tokens& prefix) { return tokens.LogProbs(prefix, {}); };
  }
  // A distribution over positions that depends on all tokens so far.
  std::vector<float> Attention(const Tokens& prefix) const {
    std::vector<float> weights = attention.LogProbs(prefix, {});
    for (float& weight : weights) {
      weight = std::exp(weight);
    }
    return weights;
  }

  TableModel tokens;
  TableModel attention;
};

struct CoveredSequence {
  Tokens tokens;
  double sum = 0;
  double coverage[kPositions] = {};
  double penalty = 0;
  double score = 0;
};

// Wu et al. 2016, equation 14, and the formulas of docs/decoding.md.
void Enumerate(const Models& models, const SearchOptions& options, const CoveredSequence& at,
               std::vector<CoveredSequence>& all) {
  const std::vector<float> log_probs = PlainLogSoftmax(models.tokens.LogProbs(at.tokens, {}));
  const std::vector<float> attention = models.Attention(at.tokens);
  for (int32_t token = 0; token < kVocabulary; ++token) {
    CoveredSequence next = at;
    next.tokens.push_back(token);
    next.sum += static_cast<double>(log_probs[static_cast<size_t>(token)]);
    for (size_t i = 0; i < kPositions; ++i) {
      next.coverage[i] += static_cast<double>(attention[i]);
    }
    if (token != kEndToken && static_cast<int>(next.tokens.size()) < options.max_length) {
      Enumerate(models, options, next, all);
      continue;
    }
    for (const double coverage : next.coverage) {
      next.penalty += options.coverage_penalty * std::log(std::min(coverage, 1.0));
    }
    const double n = static_cast<double>(next.tokens.size());
    const double norm = options.length_penalty == LengthPenalty::kNone  ? 1
                        : options.length_penalty == LengthPenalty::kPow ? n
                                                                        : (5 + n) / 6;
    next.score = next.sum / std::pow(norm, options.alpha) + next.penalty;
    all.push_back(next);
  }
}

SearchOptions RandomSearch(Random& random) {
  SearchOptions options;
  options.vocabulary_size = kVocabulary;
  options.max_length = 4;
  options.end_tokens = {kEndToken};
  options.beam_size = 256;
  options.n_best = random.In(1, 20);
  options.length_penalty = static_cast<LengthPenalty>(random.In(0, 2));
  options.alpha = random.In(-4, 8) / 4.0;
  options.coverage_penalty = random.In(1, 12) / 4.0;
  return options;
}

absl::StatusOr<DrivenResult> Drive(const Models& models, const SearchOptions& options) {
  auto search = search::BeamSearch::Create(options);
  if (!search.ok()) {
    return search.status();
  }
  DriveHooks hooks;
  hooks.attention = [&](const Tokens& tokens) { return models.Attention(tokens); };
  const absl::Status status = StepRows(models.Raw(), hooks, *search);
  return status.ok() ? CollectDriven(*search) : absl::StatusOr<DrivenResult>(status);
}

TEST(CoverageTest, AWideBeamFindsTheBestOfAllSequences) {
  for (uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    const SearchOptions options = RandomSearch(random);
    const Models models(seed);
    std::vector<CoveredSequence> expected;
    Enumerate(models, options, {}, expected);
    std::sort(expected.begin(), expected.end(),
              [](const CoveredSequence& a, const CoveredSequence& b) {
                return std::make_tuple(-a.score, a.tokens.size()) <
                       std::make_tuple(-b.score, b.tokens.size());
              });
    const auto actual = Drive(models, options);
    ASSERT_TRUE(actual.ok()) << actual.status();
    ASSERT_EQ(actual->hypotheses.size(), static_cast<size_t>(options.n_best));
    for (size_t i = 0; i < actual->hypotheses.size(); ++i) {
      EXPECT_EQ(actual->hypotheses[i].tokens, expected[i].tokens);
      EXPECT_NEAR(actual->hypotheses[i].coverage, expected[i].penalty, 1e-9);
      EXPECT_NEAR(actual->hypotheses[i].score, expected[i].score, 1e-6);
      EXPECT_NEAR(actual->hypotheses[i].sum, expected[i].sum, 1e-6);
    }
  }
}

// The bound leaves the penalty out, for it is never above 0.
TEST(CoverageTest, SafeFindsWhatNeverFinds) {
  int sooner = 0;
  for (uint64_t seed = 1; seed <= 2000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    SearchOptions options = RandomSearch(random);
    options.max_length = random.In(1, 10);
    options.beam_size = random.In(1, 5);
    options.n_best = random.In(1, options.beam_size);
    const Models models(seed);
    const auto safe = Drive(models, options);
    options.stop = search::StopMode::kNever;
    const auto never = Drive(models, options);
    ASSERT_TRUE(safe.ok() && never.ok());
    ASSERT_EQ(safe->hypotheses.size(), never->hypotheses.size());
    for (size_t i = 0; i < safe->hypotheses.size(); ++i) {
      EXPECT_EQ(safe->hypotheses[i].tokens, never->hypotheses[i].tokens);
      EXPECT_EQ(safe->hypotheses[i].score, never->hypotheses[i].score);
    }
    EXPECT_LE(safe->steps, never->steps);
    sooner += safe->steps < never->steps ? 1 : 0;
  }
  EXPECT_GT(sooner, 200);
}

TEST(CoverageTest, ScoresStayFiniteWhereNothingIsAttendedTo) {
  search::Coverage coverage(2);
  const std::vector<float> weights = {1, 0};
  const search::RowCandidates row = {{}, {}, {}, {}, nullptr, {}, weights};
  ASSERT_TRUE(coverage.AddStep(std::vector<int32_t>{0}, {&row, 1}).ok());
  EXPECT_DOUBLE_EQ(coverage.Penalty(0), 2 * std::log(search::kLeastCoverage));
}

TEST(CoverageTest, RowsInheritFromTheirParents) {
  search::Coverage coverage(1);
  const std::vector<float> left = {0.5f, 0.25f};
  const std::vector<float> right = {0.125f, 0.125f};
  const search::RowCandidates rows[] = {{{}, {}, {}, {}, nullptr, {}, left},
                                        {{}, {}, {}, {}, nullptr, {}, right}};
  ASSERT_TRUE(coverage.AddStep(std::vector<int32_t>{0, 0}, rows).ok());
  ASSERT_TRUE(coverage.AddStep(std::vector<int32_t>{1, 1}, rows).ok());
  EXPECT_DOUBLE_EQ(coverage.Penalty(0), std::log(0.625) + std::log(0.375));
  EXPECT_DOUBLE_EQ(coverage.Penalty(1), std::log(0.25) + std::log(0.25));
}

TEST(CoverageTest, WrongAttentionIsRefused) {
  const auto add = [](const std::vector<float>& weights) {
    search::Coverage coverage(1);
    const search::RowCandidates row = {{}, {}, {}, {}, nullptr, {}, weights};
    return std::string(coverage.AddStep(std::vector<int32_t>{0}, {&row, 1}).message());
  };
  EXPECT_THAT(add({}), HasSubstr("attention over 0 source positions"));
  EXPECT_THAT(add({0, -1}), HasSubstr("source position 1 is -1"));
  EXPECT_THAT(add({std::numeric_limits<float>::quiet_NaN()}), HasSubstr("is nan"));
}

}  // namespace

}  // namespace beamwright::search_testing
