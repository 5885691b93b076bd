// The search with all its options against the naive one, over ten thousand random requests.
#include "tests/engine/search/random_options.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tests/engine/search/naive_search.h"
#include "tests/engine/search/rules_driver.h"

namespace beamwright::search_testing {
namespace {

using search::FinishReason;
using search::Hypothesis;

void ExpectSame(const std::vector<Hypothesis>& actual,
                const std::vector<NaiveHypothesis>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].tokens, expected[i].tokens) << i;
    EXPECT_EQ(actual[i].token_log_probs, expected[i].token_log_probs) << i;
    EXPECT_EQ(actual[i].sum, expected[i].sum) << i;
    EXPECT_NEAR(actual[i].score, expected[i].score, 1e-9 * (1 + std::abs(expected[i].score))) << i;
    EXPECT_NEAR(actual[i].reward, expected[i].reward, 1e-9) << i;
    EXPECT_EQ(actual[i].scorer_sums.empty(), expected[i].scorer_sums.empty()) << i;
    for (size_t k = 0; k < expected[i].scorer_sums.size(); ++k) {
      EXPECT_EQ(actual[i].scorer_sums[k], expected[i].scorer_sums[k]) << i << ", scorer " << k;
    }
    EXPECT_EQ(actual[i].reason == FinishReason::kLength, expected[i].cut) << i;
  }
}

// Returns whether the search had an answer.
bool Compare(uint64_t seed, int sparsity) {
  const RandomCase c = MakeRandomCase(seed, sparsity);
  if (!Validate(c.request.options).ok()) {
    return false;
  }
  SCOPED_TRACE(c.name);
  const NaiveResult expected = NaiveSearch(c.model, c.request);
  const auto actual =
      DriveRaw(c.model, c.request.options, static_cast<int>(seed % 3), c.request.scorers);
  if (expected.dead) {
    EXPECT_EQ(actual.status().code(), absl::StatusCode::kFailedPrecondition) << actual.status();
    return false;
  }
  EXPECT_TRUE(actual.ok()) << actual.status();
  if (!actual.ok()) {
    return false;
  }
  ExpectSame(actual->hypotheses, expected.hypotheses);
  EXPECT_LE(actual->steps, expected.steps);
  return true;
}

TEST(RandomOptionsTest, FewOptionsAtATime) {
  int answered = 0;
  for (uint64_t seed = 1; seed <= 5000 && !HasFailure(); ++seed) {
    answered += Compare(seed, 8) ? 1 : 0;
  }
  EXPECT_GT(answered, 3000);
}

TEST(RandomOptionsTest, ManyOptionsAtATime) {
  int answered = 0;
  for (uint64_t seed = 5001; seed <= 10000 && !HasFailure(); ++seed) {
    answered += Compare(seed, 4) ? 1 : 0;
  }
  EXPECT_GT(answered, 1500);
}

}  // namespace
}  // namespace beamwright::search_testing
