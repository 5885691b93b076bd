// The bound of the safe stop rule against hypotheses that gain the most they can.
#include "engine/search/score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

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
