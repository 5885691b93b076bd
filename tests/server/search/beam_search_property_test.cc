// The search against oracles that share no code with it, over thousands of random models.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/search/reference_search.h"
#include "tests/server/search/search_driver.h"
#include "tests/server/search/table_model.h"

namespace beamwright::search_testing {
namespace {

using search::FinishReason;
using search::Hypothesis;
using search::LengthPenalty;
using search::SearchOptions;
using search::StopMode;

struct Case {
  TableModel model;
  SearchOptions options;
  std::string name;
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int In(int low, int high) {  // both included
    return low + static_cast<int>(engine_() % static_cast<uint64_t>(high - low + 1));
  }

 private:
  std::mt19937_64 engine_;
};

Case MakeCase(uint64_t seed) {
  Random random(seed);
  SearchOptions options;
  options.vocabulary_size = random.In(1, 12);
  options.beam_size = random.In(1, 8);
  options.n_best = random.In(1, options.beam_size);
  options.length_penalty = static_cast<LengthPenalty>(random.In(0, 2));
  options.alpha = random.In(-8, 8) / 4.0;
  options.stop = static_cast<StopMode>(random.In(0, 3));
  options.patience = random.In(1, 8) / 4.0;
  options.max_length = random.In(1, 9);
  options.begin_token = random.In(0, options.vocabulary_size);
  const int num_ends = random.In(0, 3);
  for (int i = 0; i < num_ends; ++i) {
    options.end_tokens.push_back(random.In(0, options.vocabulary_size - 1));
  }
  for (int i = random.In(0, 2); i > 0; --i) {
    const int32_t token = random.In(0, options.vocabulary_size - 1);
    if (std::count(options.end_tokens.begin(), options.end_tokens.end(), token) == 0) {
      options.banned_tokens.push_back(token);
    }
  }
  const auto kind = static_cast<TableModel::Kind>(random.In(0, 3));
  return {TableModel(seed, options.vocabulary_size, kind), options,
          absl::StrCat("seed ", seed, ", V ", options.vocabulary_size, ", B ", options.beam_size,
                       ", n ", options.n_best, ", penalty ",
                       static_cast<int>(options.length_penalty), " ", options.alpha, ", stop ",
                       static_cast<int>(options.stop), ", kind ", static_cast<int>(kind))};
}

absl::StatusOr<DrivenResult> DriveCase(const Case& c, const SearchOptions& options,
                                       int extra_candidates = 0) {
  return Drive(
      [&](const auto& prefix, const auto& banned) { return c.model.LogProbs(prefix, banned); },
      options, extra_candidates);
}

ReferenceResult ReferenceOf(const Case& c) {
  return ReferenceSearch(
      [&](const auto& prefix) { return c.model.LogProbs(prefix, c.options.banned_tokens); },
      c.options);
}

void ExpectSame(const std::vector<Hypothesis>& actual,
                const std::vector<ReferenceHypothesis>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].tokens, expected[i].tokens) << i;
    EXPECT_EQ(actual[i].token_log_probs, expected[i].token_log_probs) << i;
    EXPECT_EQ(actual[i].sum, expected[i].sum) << i;
    EXPECT_EQ(actual[i].score, expected[i].score) << i;
    EXPECT_EQ(actual[i].reason == FinishReason::kEos, expected[i].ends) << i;
  }
}

TEST(BeamSearchPropertyTest, EqualsTheReferenceBitForBit) {
  int dead = 0;
  int reused = 0;
  int cut = 0;
  for (uint64_t seed = 1; seed <= 6000 && !HasFailure(); ++seed) {
    const Case c = MakeCase(seed);
    SCOPED_TRACE(c.name);
    const ReferenceResult expected = ReferenceOf(c);
    // More candidates than asked for must change nothing.
    const auto actual = DriveCase(c, c.options, static_cast<int>(seed % 4) * 2);
    if (expected.hypotheses.empty()) {
      ++dead;
      EXPECT_EQ(actual.status().code(), absl::StatusCode::kFailedPrecondition);
      continue;
    }
    ASSERT_TRUE(actual.ok()) << actual.status();
    ExpectSame(actual->hypotheses, expected.hypotheses);
    if (c.options.stop == StopMode::kSafe && c.options.beam_size > 1) {
      EXPECT_LE(actual->steps, expected.steps);
    } else {
      EXPECT_EQ(actual->steps, expected.steps);
      EXPECT_EQ(actual->num_finished, expected.num_finished);
    }
    reused += actual->finished_slot_uses > c.options.n_best ? 1 : 0;
    cut += expected.hypotheses[0].ends ? 0 : 1;
  }
  // The random cases do reach the corners.
  EXPECT_GT(dead, 50);
  EXPECT_GT(reused, 100);
  EXPECT_GT(cut, 500);
}

// All sequences that a search could return, by plain recursion.
void Enumerate(const Case& c, const ReferenceHypothesis& prefix,
               std::vector<ReferenceHypothesis>& all) {
  const std::vector<float> log_probs = c.model.LogProbs(prefix.tokens, c.options.banned_tokens);
  for (int32_t token = 0; token < c.options.vocabulary_size; ++token) {
    ReferenceHypothesis next = prefix;
    const float log_prob = log_probs[static_cast<size_t>(token)];
    if (std::isinf(log_prob)) {
      continue;
    }
    next.tokens.push_back(token);
    next.token_log_probs.push_back(log_prob);
    next.sum += log_prob;
    const int length = static_cast<int>(next.tokens.size());
    next.score = ReferenceScore(next.sum, length, c.options);
    next.ends = std::count(c.options.end_tokens.begin(), c.options.end_tokens.end(), token) > 0;
    if (next.ends || length == c.options.max_length) {
      all.push_back(next);
    } else {
      Enumerate(c, next, all);
    }
  }
}

TEST(BeamSearchPropertyTest, AWideBeamFindsTheTrueBest) {
  for (uint64_t seed = 1; seed <= 400 && !HasFailure(); ++seed) {
    Random random(seed);
    Case c = MakeCase(seed);
    SCOPED_TRACE(c.name);
    SearchOptions& options = c.options;
    options.vocabulary_size = random.In(2, 4);
    options.max_length = random.In(2, 5);
    options.end_tokens = {0};
    if (random.In(0, 1) == 1) {
      options.end_tokens.push_back(1);
    }
    options.banned_tokens.clear();
    options.stop = random.In(0, 1) == 1 ? StopMode::kSafe : StopMode::kNever;
    options.beam_size = 1;
    for (int i = 1; i < options.max_length; ++i) {
      options.beam_size *= options.vocabulary_size;
    }
    options.n_best = random.In(1, std::min(options.beam_size, 10));
    c.model = TableModel(seed, options.vocabulary_size, TableModel::Kind::kSoftmax);
    std::vector<ReferenceHypothesis> all;
    Enumerate(c, {}, all);
    std::sort(all.begin(), all.end(), ReferencePrecedes);
    all.resize(std::min(all.size(), static_cast<size_t>(options.n_best)));
    const auto actual = DriveCase(c, options);
    ASSERT_TRUE(actual.ok()) << actual.status();
    ExpectSame(actual->hypotheses, all);
  }
}

// And the rule must be worth having: a tenth of the steps saved over all cases.
TEST(BeamSearchPropertyTest, SafeEqualsNeverInFewerSteps) {
  int64_t safe_steps = 0;
  int64_t never_steps = 0;
  for (uint64_t seed = 1; seed <= 2000 && !HasFailure(); ++seed) {
    Case c = MakeCase(seed);
    SCOPED_TRACE(c.name);
    SearchOptions options = c.options;
    options.max_length += 6;
    options.stop = StopMode::kNever;
    const auto never = DriveCase(c, options);
    options.stop = StopMode::kSafe;
    const auto safe = DriveCase(c, options);
    ASSERT_EQ(safe.status().code(), never.status().code());
    if (!safe.ok()) {
      continue;
    }
    EXPECT_LE(safe->steps, never->steps);
    safe_steps += safe->steps;
    never_steps += never->steps;
    ASSERT_EQ(safe->hypotheses.size(), never->hypotheses.size());
    for (size_t i = 0; i < safe->hypotheses.size(); ++i) {
      EXPECT_EQ(safe->hypotheses[i].tokens, never->hypotheses[i].tokens);
      EXPECT_EQ(safe->hypotheses[i].score, never->hypotheses[i].score);
      EXPECT_EQ(safe->hypotheses[i].reason, never->hypotheses[i].reason);
    }
  }
  EXPECT_LT(safe_steps * 10, never_steps * 9);
}

TEST(BeamSearchPropertyTest, MorePatienceNeverLowersTheBestScore) {
  for (uint64_t seed = 1; seed <= 800 && !HasFailure(); ++seed) {
    const Case c = MakeCase(seed);
    SCOPED_TRACE(c.name);
    SearchOptions options = c.options;
    options.stop = StopMode::kCount;
    double best = -std::numeric_limits<double>::infinity();
    int steps = 0;
    for (const double patience : {0.25, 0.5, 1.0, 1.5, 3.0}) {
      options.patience = patience;
      const auto result = DriveCase(c, options);
      if (!result.ok()) {
        break;
      }
      ASSERT_FALSE(result->hypotheses.empty());
      EXPECT_GE(result->hypotheses[0].score, best);
      EXPECT_GE(result->steps, steps);
      best = result->hypotheses[0].score;
      steps = result->steps;
    }
  }
}

TEST(BeamSearchPropertyTest, BeamOneIsAnArgmaxLoopInEveryStopMode) {
  for (uint64_t seed = 1; seed <= 1000 && !HasFailure(); ++seed) {
    const Case c = MakeCase(seed);
    SCOPED_TRACE(c.name);
    SearchOptions options = c.options;
    options.beam_size = options.n_best = 1;
    std::vector<int32_t> tokens;
    bool ends = false;
    bool dead = false;
    while (!ends && !dead && static_cast<int>(tokens.size()) < options.max_length) {
      const std::vector<float> log_probs = c.model.LogProbs(tokens, options.banned_tokens);
      const auto best = std::max_element(log_probs.begin(), log_probs.end());
      dead = std::isinf(*best);
      tokens.push_back(static_cast<int32_t>(best - log_probs.begin()));
      ends = std::count(options.end_tokens.begin(), options.end_tokens.end(), tokens.back()) > 0;
    }
    const auto actual = DriveCase(c, options);
    if (dead) {
      EXPECT_EQ(actual.status().code(), absl::StatusCode::kFailedPrecondition);
      continue;
    }
    ASSERT_TRUE(actual.ok()) << actual.status();
    ASSERT_EQ(actual->hypotheses.size(), 1u);
    EXPECT_EQ(actual->hypotheses[0].tokens, tokens);
    EXPECT_EQ(actual->hypotheses[0].reason, ends ? FinishReason::kEos : FinishReason::kLength);
  }
}

TEST(BeamSearchPropertyTest, ListsAreSortedDistinctAndAddUp) {
  for (uint64_t seed = 1; seed <= 1500 && !HasFailure(); ++seed) {
    const Case c = MakeCase(seed);
    SCOPED_TRACE(c.name);
    const auto result = DriveCase(c, c.options);
    if (!result.ok()) {
      continue;
    }
    EXPECT_LE(static_cast<int>(result->hypotheses.size()), c.options.n_best);
    for (size_t i = 0; i < result->hypotheses.size(); ++i) {
      const Hypothesis& hypothesis = result->hypotheses[i];
      double sum = 0;
      std::vector<int32_t> prefix;
      for (size_t t = 0; t < hypothesis.tokens.size(); ++t) {
        // The model's own value after this prefix: a wrong parent anywhere shows here.
        const std::vector<float> log_probs = c.model.LogProbs(prefix, c.options.banned_tokens);
        EXPECT_EQ(hypothesis.token_log_probs[t],
                  log_probs[static_cast<size_t>(hypothesis.tokens[t])]);
        sum += hypothesis.token_log_probs[t];
        prefix.push_back(hypothesis.tokens[t]);
      }
      EXPECT_EQ(hypothesis.sum, sum);
      for (size_t j = 0; j < i; ++j) {
        EXPECT_NE(result->hypotheses[j].tokens, hypothesis.tokens);
        EXPECT_GE(result->hypotheses[j].score, hypothesis.score);
      }
    }
  }
}

}  // namespace
}  // namespace beamwright::search_testing
