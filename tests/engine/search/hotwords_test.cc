// Processors that have memories of their rows: hotwords and timestamps.

#include "engine/search/hotwords.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "engine/search/timestamps.h"
#include "gtest/gtest.h"

namespace beamwright::search {

// The automaton against counting (O9): what a text has earned is the bonuses of the phrases in it,
// however it was reached, and promises are paid back.

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

// Fallbacks that say nothing more are skipped; no token may be lost by that, none be named twice.
TEST(HotwordsTest, EveryTokenThatContinuesAPhraseHasItsBonusOnce) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<Hotword> hotwords;
    for (size_t i = random() % 5 + 1; i > 0; --i) {
      Tokens tokens(1 + random() % 7);
      for (int32_t& token : tokens) {
        token = static_cast<int32_t>(random() % 3);
      }
      hotwords.push_back({tokens, static_cast<double>(random() % 16 + 1) / 4});
    }
    const Hotwords automaton(hotwords);
    int64_t state = automaton.Start();
    for (int step = 0; step < 20; ++step) {
      RuleBuffer buffer;
      automaton.Apply({{}, 0, state}, buffer);
      std::map<int32_t, float> given;
      for (const RankBonus& bonus : buffer.View().bonuses) {
        EXPECT_TRUE(given.emplace(bonus.token, bonus.value).second) << "trial " << trial;
      }
      std::map<int32_t, float> wanted;
      for (int32_t token = 0; token < 4; ++token) {
        if (const int64_t next = automaton.Next(state, token); next != automaton.Start()) {
          wanted[token] = static_cast<float>(automaton.Earned(next) + automaton.Promise(next));
        }
      }
      EXPECT_EQ(given, wanted) << "trial " << trial;
      state = automaton.Next(state, static_cast<int32_t>(random() % 3));
    }
  }
}

TEST(SharedHotwordsTest, RequestsWithTheSamePhrasesShareTheirAutomaton) {
  const std::vector<Hotword> phrases = {{{1, 2, 3}, 3}, {{2, 4}, 1}};
  const size_t before = NumSharedHotwords();
  {
    const auto first = SharedHotwords(phrases);
    const auto second = SharedHotwords(phrases);
    EXPECT_EQ(NumSharedHotwords(), before + 1);
    const auto other = SharedHotwords({{{1, 2, 3}, 2}, {{2, 4}, 1}});
    EXPECT_EQ(NumSharedHotwords(), before + 2);
    EXPECT_EQ(first->Reward(first->Next(first->Next(0, 1), 2), 3, 0), 3);
    EXPECT_EQ(other->Reward(other->Next(other->Next(0, 1), 2), 3, 0), 2);
    EXPECT_EQ(second->max_gain(), first->max_gain());
  }
  EXPECT_EQ(NumSharedHotwords(), before);
}

using ::testing::ElementsAre;
using ::testing::SizeIs;

// Tokens 0 to 9 are texts, 10 ends, 11 is another one, times are 12 to 99.
constexpr int32_t kEnd = 10;
constexpr int32_t kFirst = 12;
constexpr int32_t kVocabulary = 100;

// Which tokens may follow.
std::vector<int32_t> Open(const std::vector<int32_t>& tokens, int num_generated) {
  const Timestamps times(kFirst, kVocabulary, kEnd);
  RuleBuffer rules;
  times.Apply({tokens, num_generated, 0}, rules);
  std::vector<int32_t> open;
  for (int32_t token = 0; token < kVocabulary; ++token) {
    const bool is_barred =
        std::any_of(rules.edits().begin(), rules.edits().end(),
                    [&](const LogitEdit& edit) { return edit.token == token; }) ||
        (rules.has_allowed() &&
         !std::binary_search(rules.allowed().begin(), rules.allowed().end(), token));
    if (!is_barred) {
      open.push_back(token);
    }
  }
  return open;
}

TEST(TimestampsTest, AnswersBeginWithATimeOfAtMostASecond) {
  const std::vector<int32_t> open = Open({11, 11}, 0);
  EXPECT_THAT(open, SizeIs(51));
  EXPECT_EQ(open.front(), kFirst);
}

TEST(TimestampsTest, TimesComeInPairsAndDoNotFall) {
  // Behind the first time, or a pair: text.
  EXPECT_EQ(Open({11, 20}, 1), Open({11, 20, 3, 30, 30}, 4));
  EXPECT_THAT(Open({11, 20}, 1), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  // Behind a text and a time: a time of at least that one, or the end.
  const std::vector<int32_t> behind = Open({11, 20, 3, 97}, 3);
  EXPECT_THAT(behind, ElementsAre(10, 11, 97, 98, 99));
  // Behind a text: text, or a later time.
  const std::vector<int32_t> later = Open({11, 20, 3, 97, 97, 4}, 5);
  EXPECT_THAT(later, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 98, 99));
  // A time of the prefix does not count.
  EXPECT_THAT(Open({99, 20, 4}, 2), SizeIs(12 + 79));
}

}  // namespace

}  // namespace beamwright::search
