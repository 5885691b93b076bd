// N-gram models against the definition of back-off, word by word over whole histories.
#include "engine/fusion/ngram_model.h"

#include <cmath>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::fusion {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<int32_t>;

constexpr int kTokens = 6;
constexpr int kUnlisted = 5;  // a token without unigram

NgramVocabulary Vocabulary() { return {kTokens, {0, 1}}; }

struct Listed {
  double prob;
  double backoff;
};
using Table = std::map<Words, Listed>;

// The definition, in its plainest form. history: all words so far.
double Log10Prob(const Table& table, Words history, int32_t word) {
  double backoffs = 0;
  for (;;) {
    Words ngram = history;
    ngram.push_back(word);
    if (const auto found = table.find(ngram); found != table.end()) {
      return backoffs + found->second.prob;
    }
    if (history.empty()) {
      return backoffs - 100;
    }
    if (const auto found = table.find(history); found != table.end()) {
      backoffs += found->second.backoff;
    }
    history.erase(history.begin());
  }
}

int32_t WordOf(const Table& table, int32_t token) {
  const NgramVocabulary vocabulary = Vocabulary();
  if (token < 2) {
    return vocabulary.end_word();
  }
  return table.count({token}) > 0 ? token : vocabulary.unknown_word();
}

// Random n-grams whose contexts are there.
Table RandomTable(std::mt19937& random, int order, bool has_begin, bool has_unknown) {
  const NgramVocabulary vocabulary = Vocabulary();
  Words words = {2, 3, 4, vocabulary.end_word()};
  if (has_begin) {
    words.push_back(vocabulary.begin_word());
  }
  if (has_unknown) {
    words.push_back(vocabulary.unknown_word());
  }
  std::uniform_real_distribution<float> uniform(0, 3);
  Table table;
  std::vector<Words> contexts = {{}};
  for (int length = 1; length <= order; ++length) {
    std::vector<Words> next;
    for (const Words& context : contexts) {
      for (const int32_t word : words) {
        if (length == 1 || random() % 2 == 0) {
          next.push_back(context);
          next.back().push_back(word);
          table[next.back()] = {-uniform(random), length < order ? uniform(random) - 2 : 0};
        }
      }
    }
    contexts = next;
  }
  return table;
}

std::vector<Ngram> Ngrams(const Table& table, std::mt19937& random) {
  std::vector<Ngram> ngrams;
  for (const auto& [words, listed] : table) {
    ngrams.push_back({words, static_cast<float>(listed.prob), static_cast<float>(listed.backoff),
                      static_cast<int>(ngrams.size()) + 1});
  }
  std::shuffle(ngrams.begin(), ngrams.end(), random);
  return ngrams;
}

// Histories that agree in their last order - 1 words are one state: none stands for more words.
TEST(NgramModelTest, AStateIsOfTheLastWordsThatCount) {
  std::mt19937 random(141);
  for (int order = 1; order <= 4; ++order) {
    const Table table = RandomTable(random, order, /*has_begin=*/true, /*has_unknown=*/true);
    const auto model = NgramModel::Create(Vocabulary(), Ngrams(table, random));
    ASSERT_TRUE(model.ok()) << model.status();
    std::map<Words, NgramModel::State> states;
    for (int walk = 0; walk < 2000; ++walk) {
      NgramModel::State state = (*model)->Start();
      Words recent = {Vocabulary().begin_word()};
      for (int length = 0; length < 6; ++length) {
        while (recent.size() >= static_cast<size_t>(order)) {
          recent.erase(recent.begin());
        }
        EXPECT_EQ(states.try_emplace(recent, state).first->second, state) << order;
        const auto token = static_cast<int32_t>(random() % kTokens);
        state = (*model)->Next(state, token);
        recent.push_back(WordOf(table, token));
      }
    }
  }
}

TEST(NgramModelTest, EveryHistoryHasTheDefinitionsProbabilities) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 60; ++trial) {
    const int order = 1 + trial % 4;
    const bool has_begin = trial % 3 != 0;
    const Table table = RandomTable(random, order, has_begin, trial % 2 == 0);
    const auto model = NgramModel::Create(Vocabulary(), Ngrams(table, random));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->order(), order);
    EXPECT_EQ((*model)->num_ngrams(), static_cast<int64_t>(table.size()));
    for (int walk = 0; walk < 20; ++walk) {
      NgramModel::State state = (*model)->Start();
      Words history;
      if (has_begin) {
        history.push_back(Vocabulary().begin_word());
      }
      for (int length = 0; length < 7; ++length) {
        std::vector<float> actual(kTokens);
        (*model)->Score(state, absl::MakeSpan(actual));
        EXPECT_EQ((*model)->LogProbOfEnd(state), actual[0]);
        for (int32_t token = 0; token < kTokens; ++token) {
          EXPECT_EQ((*model)->LogProb(state, token), actual[static_cast<size_t>(token)]);
          // Only order - 1 words count, whatever longer ones there were.
          Words recent = history;
          while (recent.size() >= static_cast<size_t>(order)) {
            recent.erase(recent.begin());
          }
          const double expected =
              std::min(0.0, Log10Prob(table, recent, WordOf(table, token)) * std::log(10.0));
          EXPECT_NEAR(actual[static_cast<size_t>(token)], expected, 1e-6 * (1 - expected));
        }
        const auto token = static_cast<int32_t>(random() % kTokens);
        state = (*model)->Next(state, token);
        history.push_back(WordOf(table, token));
      }
    }
  }
}

TEST(NgramModelTest, RowsAreMovedRepeatedAndDropped) {
  std::mt19937 random(5);
  const Table table = RandomTable(random, 3, true, true);
  const auto model = NgramModel::Create(Vocabulary(), Ngrams(table, random));
  ASSERT_TRUE(model.ok()) << model.status();
  NgramScorer scorer(*model);
  std::vector<Words> rows(1);
  const std::vector<std::pair<Words, Words>> steps = {
      {{0, 0, 0}, {2, 3, 4}}, {{2, 0, 0, 1}, {3, 3, kUnlisted, 2}}, {{3, 3}, {4, 2}}};
  for (const auto& [parents, tokens] : steps) {
    scorer.Advance(parents, tokens);
    std::vector<Words> next;
    for (size_t row = 0; row < parents.size(); ++row) {
      next.push_back(rows[static_cast<size_t>(parents[row])]);
      next.back().push_back(tokens[row]);
      NgramModel::State state = (*model)->Start();
      for (const int32_t token : next.back()) {
        state = (*model)->Next(state, token);
      }
      std::vector<float> actual(kTokens);
      std::vector<float> expected(kTokens);
      scorer.Score(static_cast<int>(row), absl::MakeSpan(actual));
      (*model)->Score(state, absl::MakeSpan(expected));
      EXPECT_EQ(actual, expected);
    }
    rows = next;
  }
}

TEST(NgramModelTest, WhatIsThereTwiceOrHangsInTheAirIsRefused) {
  const auto error = [](std::vector<Ngram> ngrams) {
    return std::string(NgramModel::Create(Vocabulary(), std::move(ngrams)).status().message());
  };
  EXPECT_THAT(error({{{2}, -1, 0, 7}, {{3}, -1, 0, 8}, {{2}, -2, 0, 9}}),
              HasSubstr("line 9: the n-gram is in line 7 already"));
  EXPECT_THAT(error({{{2}, -1, 0, 7}, {{3, 2}, -1, 0, 8}}),
              HasSubstr("line 8: the n-gram's first 1 words are not listed"));
  EXPECT_THAT(error({{{2}, -1, 0, 7}, {{2, 2, 2}, -1, 0, 8}}),
              HasSubstr("line 8: the n-gram's first 2 words are not listed"));
  EXPECT_THAT(error({{Words(17, 2), -1, 0, 4}}), HasSubstr("line 4: an n-gram of 17 words"));
  EXPECT_THAT(error({{{}, -1, 0, 4}}), HasSubstr("line 4: an n-gram of 0 words"));
}

TEST(NgramModelTest, AModelOfNothingKnowsNothing) {
  const auto model = NgramModel::Create(Vocabulary(), {});
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<float> scores(kTokens);
  (*model)->Score((*model)->Next((*model)->Start(), 3), absl::MakeSpan(scores));
  for (const float score : scores) {
    EXPECT_NEAR(score, -100 * std::log(10.0), 1e-4);
  }
}

}  // namespace
}  // namespace beamwright::fusion
