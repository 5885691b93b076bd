// KenLM's binary files against the ARPA files that they were made from. data/words.trie is what
// KenLM 0.3.0's `build_binary trie data/words.arpa` writes.
#include "engine/fusion/kenlm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/fusion/arpa.h"

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

TEST(KenlmTest, ATrieIsTheModelOfItsArpaFile) {
  const std::string trie = Data("words.trie");
  ASSERT_TRUE(IsKenlm(trie));
  EXPECT_FALSE(IsKenlm(Data("words.arpa")));
  EXPECT_THAT(*ReadKenlmWords(trie), UnorderedElementsAreArray(*ReadArpaWords(Data("words.arpa"))));
  const auto model = ReadKenlm(trie, Vocabulary(kNumTokens), TokenOf);
  const auto expected = ReadArpa(Data("words.arpa"), Vocabulary(kNumTokens), TokenOf);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ((*model)->order(), 4);
  ExpectSameModel(**model, **expected, kNumTokens);
  // Words that are no tokens are left out with their n-grams.
  const auto few = [](absl::string_view word) { return TokenOf(word) < 5 ? TokenOf(word) : -1; };
  ExpectSameModel(**ReadKenlm(trie, Vocabulary(6), few),
                  **ReadArpa(Data("words.arpa"), Vocabulary(6), few), 6);
  EXPECT_THAT(
      ReadKenlm(trie, Vocabulary(6), [](absl::string_view) { return -1; }).status().message(),
      HasSubstr("none of the 12 unigrams is a token"));
}

TEST(KenlmTest, OtherKindsAreRefusedByName) {
  const auto refusal = [](const std::string& content) {
    return std::string(ReadKenlmWords(content).status().message());
  };
  std::string file = Data("words.trie");
  const char* const kinds[] = {
      "a probing",        "a probing (with rest costs)", "",
      "a quantised trie", "an array-compressed trie",    "a quantised, array-compressed trie"};
  for (const char kind : {0, 1, 3, 4, 5}) {
    file[96] = kind;
    EXPECT_THAT(refusal(file), HasSubstr(absl::StrCat("is ", kinds[static_cast<size_t>(kind)],
                                                      " binary of KenLM; of these, only tries")));
  }
  EXPECT_THAT(refusal(file), HasSubstr("`build_binary trie` makes, or the ARPA file"));
  file = Data("words.trie");
  file[49] = '4';
  EXPECT_THAT(refusal(file), HasSubstr("another version's binary"));
  file = Data("words.trie");
  file[100] = 0;
  EXPECT_THAT(refusal(file), HasSubstr("a wordless binary"));
}

// Whatever is damaged: an error or a model, no crash and no memory beyond the file's size.
TEST(KenlmTest, DamagedFilesAreRefusedOrRead) {
  const std::string whole = Data("words.trie");
  const auto read = [](const std::string& content) {
    return ReadKenlm(content, Vocabulary(kNumTokens), TokenOf).ok();
  };
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(read(whole.substr(0, size))) << size;
  }
  std::mt19937 random(6);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string damaged = whole;
    for (size_t i = 0; i <= random() % 3; ++i) {
      damaged[56 + random() % (damaged.size() - 56)] = static_cast<char>(random());
    }
    refused += read(damaged) ? 0 : 1;
  }
  EXPECT_GT(refused, 400);
}

}  // namespace
}  // namespace beamwright::fusion
