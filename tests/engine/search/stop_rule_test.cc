// O3: when a search ends. `safe` answers what `never` answers, in fewer steps; more patience never
// lowers the best score. (Under all options together: option_laws_test.cc.)
#include <limits>

#include "gtest/gtest.h"
#include "tests/engine/search/plain_case.h"

namespace beamwright::search_testing {
namespace {

using search::SearchOptions;
using search::StopMode;

// And the rule must be worth having: a tenth of the steps saved over all cases.
TEST(StopRuleTest, SafeEqualsNeverInFewerSteps) {
  int64_t safe_steps = 0;
  int64_t never_steps = 0;
  for (uint64_t seed = 1; seed <= 2000 && !HasFailure(); ++seed) {
    PlainCase c = MakePlainCase(seed);
    SCOPED_TRACE(c.name);
    SearchOptions options = c.options;
    options.max_length += 6;
    options.stop = StopMode::kNever;
    const auto never = DrivePlain(c, options);
    options.stop = StopMode::kSafe;
    const auto safe = DrivePlain(c, options);
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

TEST(StopRuleTest, MorePatienceNeverLowersTheBestScore) {
  for (uint64_t seed = 1; seed <= 800 && !HasFailure(); ++seed) {
    const PlainCase c = MakePlainCase(seed);
    SCOPED_TRACE(c.name);
    SearchOptions options = c.options;
    options.stop = StopMode::kCount;
    double best = -std::numeric_limits<double>::infinity();
    int steps = 0;
    for (const double patience : {0.25, 0.5, 1.0, 1.5, 3.0}) {
      options.patience = patience;
      const auto result = DrivePlain(c, options);
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

}  // namespace
}  // namespace beamwright::search_testing
