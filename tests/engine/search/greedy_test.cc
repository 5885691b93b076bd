// O4: a beam of one is greedy search, whatever the stop mode.
#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "tests/engine/search/plain_case.h"

namespace beamwright::search_testing {
namespace {

using search::FinishReason;
using search::SearchOptions;

TEST(GreedyTest, BeamOneIsAnArgmaxLoopInEveryStopMode) {
  for (uint64_t seed = 1; seed <= 1000 && !HasFailure(); ++seed) {
    const PlainCase c = MakePlainCase(seed);
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
    const auto actual = DrivePlain(c, options);
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

}  // namespace
}  // namespace beamwright::search_testing
