// The search against oracles that share no code with it, over thousands of random models.
#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "tests/engine/search/plain_case.h"
#include "tests/engine/search/reference_search.h"

namespace beamwright::search_testing {
namespace {

using search::FinishReason;
using search::Hypothesis;
using search::SearchOptions;
using search::StopMode;

ReferenceResult ReferenceOf(const PlainCase& c) {
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
    const PlainCase c = MakePlainCase(seed);
    SCOPED_TRACE(c.name);
    const ReferenceResult expected = ReferenceOf(c);
    // More candidates than asked for must change nothing.
    const auto actual = DrivePlain(c, c.options, static_cast<int>(seed % 4) * 2);
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
void Enumerate(const PlainCase& c, const ReferenceHypothesis& prefix,
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
    PlainCase c = MakePlainCase(seed);
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
    const auto actual = DrivePlain(c, options);
    ASSERT_TRUE(actual.ok()) << actual.status();
    ExpectSame(actual->hypotheses, all);
  }
}

TEST(BeamSearchPropertyTest, ListsAreSortedDistinctAndAddUp) {
  for (uint64_t seed = 1; seed <= 1500 && !HasFailure(); ++seed) {
    const PlainCase c = MakePlainCase(seed);
    SCOPED_TRACE(c.name);
    const auto result = DrivePlain(c, c.options);
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
