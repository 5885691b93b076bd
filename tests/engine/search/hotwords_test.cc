// The automaton against counting (O9): what a text has earned is the bonuses of the phrases in it,
// however it was reached, and promises are paid back.
#include "engine/search/hotwords.h"

#include <random>

#include "gtest/gtest.h"

namespace beamwright::search {
namespace {

using Tokens = std::vector<int32_t>;

double Count(const std::vector<Hotword>& hotwords, const Tokens& text) {
  double total = 0;
  for (const Hotword& hotword : hotwords) {
    for (size_t i = 0; i + hotword.tokens.size() <= text.size(); ++i) {
      total += std::equal(hotword.tokens.begin(), hotword.tokens.end(),
                          text.begin() + static_cast<int64_t>(i))
                   ? hotword.bonus
                   : 0;
    }
  }
  return total;
}

TEST(HotwordsTest, EarnedIsTheNumberOfOccurrencesTimesTheBonus) {
  std::mt19937 random(5);
  const auto tokens = [&](size_t least, size_t most) {
    Tokens result(least + random() % (most - least + 1));
    for (int32_t& token : result) {
      token = static_cast<int32_t>(random() % 3);
    }
    return result;
  };
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<Hotword> hotwords;
    for (size_t i = random() % 6 + 1; i > 0; --i) {
      hotwords.push_back({tokens(1, 5), static_cast<double>(random() % 16) / 4});
    }
    const Hotwords automaton(hotwords);
    const Tokens text = tokens(0, 30);
    int64_t state = automaton.Start();
    double earned = 0;
    for (const int32_t token : text) {
      const double reward = automaton.Reward(state, token, 0);
      EXPECT_LE(reward, automaton.max_gain());
      earned += reward;
      state = automaton.Next(state, token);
    }
    ASSERT_EQ(earned, Count(hotwords, text)) << "trial " << trial;
  }
}

// A row that is inside a phrase ranks higher; one that has left it has nothing.
TEST(HotwordsTest, PromisesGrowWithThePhraseAndFallAway) {
  const Hotwords automaton({{{1, 2, 3}, 3}, {{2, 4}, 1}});
  const auto bonus = [&](int64_t state, int32_t token) {
    RuleBuffer buffer;
    automaton.Apply({{}, 0, state}, buffer);
    for (const RankBonus& given : buffer.View().bonuses) {
      if (given.token == token) {
        return given.value;
      }
    }
    return 0.0f;
  };
  const int64_t one = automaton.Next(automaton.Start(), 1);
  const int64_t two = automaton.Next(one, 2);
  EXPECT_EQ(bonus(automaton.Start(), 1), 1);
  EXPECT_EQ(bonus(one, 2), 2);
  EXPECT_EQ(bonus(two, 3), 3);  // all of it, earned
  EXPECT_EQ(bonus(two, 4), 1);  // of the other phrase, by way of the fallback
  EXPECT_EQ(bonus(two, 1), 1);  // begins again
  EXPECT_EQ(bonus(two, 5), 0);  // nothing is left
  EXPECT_EQ(automaton.Reward(two, 5, 0), 0);
}

}  // namespace
}  // namespace beamwright::search
