// KenLM's binary files against the ARPA files that they were made from, and against scores that
// KenLM's Python package computes. data/ has what `build_binary` of KenLM 0.3.0 writes: words.trie
// and words.probing of words.arpa, wordless.* with -v, holes.probing with -p 4, and so on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/fusion/ngram_files.h"

namespace beamwright::fusion {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return (std::stringstream() << in.rdbuf()).str();
}

std::string Data(const std::string& name) {
  return Content(absl::StrCat(BEAMWRIGHT_SOURCE_DIR, "/tests/engine/fusion/data/", name));
}

// Token i is the word "wi"; the last two tokens are no words.
constexpr int kNumTokens = 11;

int32_t TokenOf(absl::string_view word) {
  int32_t token = -1;
  return word.size() > 1 && word[0] == 'w' && absl::SimpleAtoi(word.substr(1), &token) ? token : -1;
}

NgramVocabulary Vocabulary(int num_tokens) {
  NgramVocabulary vocabulary;
  vocabulary.num_tokens = num_tokens;
  vocabulary.end_tokens = {num_tokens - 1};
  return vocabulary;
}

KenlmTokens NumberedWords() {
  return {TokenOf, [](int32_t token) { return absl::StrCat("w", token); }};
}

// Every token's log-probability behind random histories.
void ExpectSameModel(const NgramModel& model, const NgramModel& expected, int num_tokens) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    NgramModel::State state = model.Start();
    NgramModel::State same = expected.Start();
    for (int step = 0; step < 8; ++step) {
      for (int trial = 0; trial < std::min(num_tokens, 100); ++trial) {
        const auto token = static_cast<int32_t>(random() % static_cast<uint32_t>(num_tokens));
        ASSERT_NEAR(model.LogProb(state, token), expected.LogProb(same, token), 2e-5);
      }
      ASSERT_NEAR(model.LogProbOfEnd(state), expected.LogProbOfEnd(same), 2e-5);
      const auto token = static_cast<int32_t>(random() % static_cast<uint32_t>(num_tokens));
      state = model.Next(state, token);
      same = expected.Next(same, token);
    }
  }
}

TEST(KenlmTest, ABinaryIsTheModelOfItsArpaFile) {
  const auto expected = ReadArpa(Data("words.arpa"), Vocabulary(kNumTokens), TokenOf);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_FALSE(IsKenlm(Data("words.arpa")));
  // Words that are no tokens are left out with their n-grams, or found by their texts alone.
  const auto few = [](absl::string_view word) { return TokenOf(word) < 5 ? TokenOf(word) : -1; };
  for (const std::string name : {"words.trie", "words.probing"}) {
    SCOPED_TRACE(name);
    const std::string file = Data(name);
    ASSERT_TRUE(IsKenlm(file));
    EXPECT_TRUE(*KenlmHasWords(file));
    EXPECT_THAT(*ReadKenlmWords(file),
                UnorderedElementsAreArray(*ReadArpaWords(Data("words.arpa"))));
    const auto model = ReadKenlm(file, Vocabulary(kNumTokens), NumberedWords());
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->order(), 4);
    EXPECT_EQ((*model)->num_ngrams(), 12 + 52 + 37 + 6 + 7);  // KenLM adds missing suffixes
    ExpectSameModel(**model, **expected, kNumTokens);
    ExpectSameModel(**ReadKenlm(file, Vocabulary(6), {few, nullptr}),
                    **ReadArpa(Data("words.arpa"), Vocabulary(6), few), 6);
    const auto none = [](absl::string_view) { return -1; };
    EXPECT_THAT(ReadKenlm(file, Vocabulary(6), {none, nullptr}).status().message(),
                HasSubstr("none of the 12 unigrams is a token"));
  }
}

TEST(KenlmTest, WordsWithoutTextsAreFoundByTheirHashes) {
  const auto expected = ReadArpa(Data("words.arpa"), Vocabulary(kNumTokens), TokenOf);
  for (const std::string name : {"wordless.trie", "wordless.probing"}) {
    SCOPED_TRACE(name);
    const std::string file = Data(name);
    EXPECT_FALSE(*KenlmHasWords(file));
    EXPECT_THAT(ReadKenlmWords(file).status().message(), HasSubstr("without the texts"));
    const auto model = ReadKenlm(file, Vocabulary(kNumTokens), NumberedWords());
    ASSERT_TRUE(model.ok()) << model.status();
    ExpectSameModel(**model, **expected, kNumTokens);
    // A model of words next to a vocabulary of letters is not taken for one of tokens.
    const auto other = [](int32_t token) { return absl::StrCat("w", 7 + token); };
    EXPECT_THAT(ReadKenlm(file, Vocabulary(6), {TokenOf, other}).status().message(),
                HasSubstr("of its 12 words are tokens of the target vocabulary: a model of words "
                          "needs its texts, so build it without -v"));
  }
}

// Of every order, with and without <unk>, and where n-grams' ends are not listed (holes).
TEST(KenlmTest, ProbingFilesOfEveryOrder) {
  const struct {
    std::string name;
    std::string text;
    double score;  // kenlm.Model(name + ".probing").score(text)
  } cases[] = {
      {"order2", "w2 w1 w3 w0 w0 w4", -12.164},   {"order2", "w0 w0 w3 w3 w0 w1", -9.0335},
      {"order3", "w2 w1 w3 w0 w0 w4", -108.0984}, {"order3", "w0 w0 w3 w3 w0 w1", -9.2855},
      {"words", "w5 w2 w6 w0 w1 w8", -19.022},    {"words", "w1 w6 w6 w1 w3 w1", -15.5503},
      {"order5", "w2 w1 w3 w0 w0 w4", -12.7101},  {"order5", "w0 w2 w4 w0 w4 w1", -9.9996},
      {"holes", "w2 w1 w3 w0 w0 w4", -11.6381},   {"holes", "w0 w2 w4 w0 w4 w1", -11.5118}};
  for (const auto& [name, text, score] : cases) {
    SCOPED_TRACE(name + ": " + text);
    const auto model = ReadKenlm(Data(name + ".probing"), Vocabulary(kNumTokens), NumberedWords());
    ASSERT_TRUE(model.ok()) << model.status();
    double sum = 0;
    NgramModel::State state = (*model)->Start();
    for (const absl::string_view word : absl::StrSplit(text, ' ')) {
      sum += double{(*model)->LogProb(state, TokenOf(word))};
      state = (*model)->Next(state, TokenOf(word));
    }
    sum += double{(*model)->LogProbOfEnd(state)};
    EXPECT_NEAR(sum / std::log(10.0), score, 1e-4);
    const auto expected = ReadArpa(Data(name + ".arpa"), Vocabulary(kNumTokens), TokenOf);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ExpectSameModel(**model, **expected, kNumTokens);
    // All tokens at once have the same bits; no history gives a token more than its bound.
    const std::vector<float> most = (*model)->MostOfTokens();
    std::vector<float> log_probs(kNumTokens);
    (*model)->Score(state, absl::MakeSpan(log_probs));
    for (int32_t token = 0; token < kNumTokens; ++token) {
      EXPECT_EQ(log_probs[static_cast<size_t>(token)], (*model)->LogProb(state, token));
      EXPECT_LE(log_probs[static_cast<size_t>(token)], most[static_cast<size_t>(token)]);
    }
  }
}

// States are noted when a search first comes to them.
TEST(KenlmTest, ThreadsMayNoteTheSameStatesAtOnce) {
  const auto model = ReadKenlm(Data("order5.probing"), Vocabulary(kNumTokens), NumberedWords());
  const auto expected = ReadArpa(Data("order5.arpa"), Vocabulary(kNumTokens), TokenOf);
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { ExpectSameModel(**model, **expected, kNumTokens); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(KenlmTest, OtherKindsAreRefusedByName) {
  const auto refusal = [](const std::string& content) {
    return std::string(ReadKenlmWords(content).status().message());
  };
  std::string file = Data("words.trie");
  const char* const kinds[] = {"",
                               "a probing (with rest costs)",
                               "",
                               "a quantised trie",
                               "an array-compressed trie",
                               "a quantised, array-compressed trie"};
  for (const char kind : {1, 3, 4, 5}) {
    file[96] = kind;
    EXPECT_THAT(refusal(file), HasSubstr(absl::StrCat("is ", kinds[static_cast<size_t>(kind)],
                                                      " binary of KenLM; of these, probing")));
  }
  EXPECT_THAT(refusal(file), HasSubstr("`build_binary trie` makes, or the ARPA file"));
  file = Data("words.trie");
  file[49] = '4';
  EXPECT_THAT(refusal(file), HasSubstr("another version's binary"));
}

// Whatever is damaged: an error or a model that can be asked, no crash and no memory beyond the
// file's size.
TEST(KenlmTest, DamagedFilesAreRefusedOrRead) {
  for (const std::string name : {"words.trie", "words.probing", "order5.probing"}) {
    SCOPED_TRACE(name);
    const std::string whole = Data(name);
    const auto read = [](const std::string& content) {
      const auto model = ReadKenlm(content, Vocabulary(kNumTokens), NumberedWords());
      if (model.ok()) {
        NgramModel::State state = (*model)->Start();
        for (const int32_t token : {5, 2, 6, 10, 0, 1, 8}) {
          EXPECT_LE((*model)->LogProb(state, token), 0);
          state = (*model)->Next(state, token);
        }
      }
      return model.ok();
    };
    for (size_t size = 0; size < whole.size(); ++size) {
      ASSERT_FALSE(read(whole.substr(0, size))) << size;
    }
    std::mt19937 random(6);
    int refused = 0;
    for (int round = 0; round < 1000; ++round) {
      std::string damaged = whole;
      for (size_t i = 0; i <= random() % 3; ++i) {
        damaged[56 + random() % (damaged.size() - 56)] = static_cast<char>(random());
      }
      refused += read(damaged) ? 0 : 1;
    }
    EXPECT_GT(refused, 40);
  }
}

}  // namespace
}  // namespace beamwright::fusion
