// Word models behind letters and pieces, against the sum over the words of the finished text.
#include <zlib.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/fusion/ngram_files.h"
#include "engine/fusion/row_scorers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::fusion::words_testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// By its words with spaces between: decimal logarithms of a probability and a back-off.
using Table = std::map<std::string, std::pair<double, double>>;

const Table kTable = {
    {"<s>", {-99, -0.3}},     {"</s>", {-0.9, 0}},        {"<unk>", {-2, -0.1}},
    {"ab", {-0.7, -0.2}},     {"abba", {-1.1, -0.4}},     {"b", {-0.8, 0.15}},
    {"cab", {-1.5, -0.1}},    {"<s> ab", {-0.2, -0.3}},   {"ab b", {-0.1, 0.05}},
    {"b <unk>", {-0.4, 0}},   {"abba cab", {-0.3, -0.2}}, {"cab </s>", {-0.1, 0}},
    {"<s> ab b", {-0.05, 0}},
};

std::string Arpa() {
  std::string text = "\\data\\\n";
  std::vector<std::string> sections(3);
  std::vector<int> counts(3);
  for (const auto& [words, numbers] : kTable) {
    const size_t order = std::vector<std::string>(absl::StrSplit(words, ' ')).size();
    absl::StrAppend(&sections[order - 1], numbers.first, "\t", words,
                    order < 3 ? absl::StrCat("\t", numbers.second) : "", "\n");
    ++counts[order - 1];
  }
  for (size_t order = 1; order <= 3; ++order) {
    absl::StrAppend(&text, "ngram ", order, "=", counts[order - 1], "\n");
  }
  for (size_t order = 1; order <= 3; ++order) {
    absl::StrAppend(&text, "\n\\", order, "-grams:\n", sections[order - 1]);
  }
  return text + "\n\\end\\\n";
}

// log10 p(word | history), as the format is defined.
double Log10Prob(std::vector<std::string> history, const std::string& word) {
  while (history.size() > 2) {
    history.erase(history.begin());
  }
  const std::string context = absl::StrJoin(history, " ");
  const auto listed = kTable.find(history.empty() ? word : absl::StrCat(context, " ", word));
  if (listed != kTable.end()) {
    return listed->second.first;
  }
  const auto backoff = kTable.find(context);
  history.erase(history.begin());
  return (backoff == kTable.end() ? 0 : backoff->second.second) + Log10Prob(history, word);
}

double LogProbOfText(const std::string& text) {
  std::vector<std::string> history = {"<s>"};
  double sum = 0;
  for (const std::string& word :
       std::vector<std::string>(absl::StrSplit(text, ' ', absl::SkipEmpty()))) {
    const bool is_known = kTable.count(word) > 0;
    history.push_back(is_known ? word : "<unk>");
    const std::string listed = history.back();
    history.pop_back();
    sum += std::min(Log10Prob(history, listed), 0.0) * std::log(10) -
           (is_known ? 0 : kUnknownWordPenalty);
    history.push_back(listed);
  }
  return sum + Log10Prob(history, "</s>") * std::log(10);
}

std::shared_ptr<const WordNgram> Model(std::vector<std::string> surfaces,
                                       std::vector<int32_t> ends = {}) {
  const auto words = ReadArpaWords(Arpa());
  EXPECT_TRUE(words.ok()) << words.status();
  NgramVocabulary vocabulary;
  vocabulary.num_tokens = static_cast<int>(words->size()) + 1;
  auto model = ReadArpa(Arpa(), vocabulary, [&](absl::string_view word) {
    const auto found = std::find(words->begin(), words->end(), word);
    return found == words->end() ? -1 : static_cast<int32_t>(found - words->begin());
  });
  EXPECT_TRUE(model.ok()) << model.status();
  return std::make_shared<const WordNgram>(*model, *words,
                                           WordTokens{std::move(surfaces), std::move(ends)});
}

TEST(WordNgramTest, StepsAddUpToTheWordsOfTheText) {
  const std::vector<std::string> letters = {"a", "b", "c", " ", ""};
  const std::vector<std::string> pieces = {" ab", "ba", " b", "a", " c", "b", " ", ""};
  std::mt19937 random(5);
  for (const std::vector<std::string>& surfaces : {letters, pieces}) {
    const auto model = Model(surfaces);
    std::vector<float> row(surfaces.size());
    for (int i = 0; i < 500; ++i) {
      WordNgram::State state = model->Start();
      std::string text;
      double sum = 0;
      for (size_t length = random() % 9; length > 0; --length) {
        const auto token = static_cast<int32_t>(random() % surfaces.size());
        const float step = model->LogProb(state, token);
        EXPECT_LE(step, 0);
        model->Score(state, absl::MakeSpan(row));
        EXPECT_EQ(row[static_cast<size_t>(token)], step);
        sum += double{step};
        state = model->Next(state, token);
        text += surfaces[static_cast<size_t>(token)];
      }
      const float end = model->LogProbOfEnd(state);
      EXPECT_LE(end, 0);
      EXPECT_NEAR(sum + double{end}, LogProbOfText(text), 1e-4) << "'" << text << "'";
    }
  }
}

TEST(WordNgramTest, AnEndTokenIsTheEndOfTheText) {
  const auto model = Model({"a", "b", ""}, {2});
  const WordNgram::State state = model->Next(model->Next(model->Start(), 0), 1);
  EXPECT_EQ(model->LogProb(state, 2), model->LogProbOfEnd(state));
}

TEST(WordNgramTest, ABeginningOfNoWordPaysAtOnce) {
  const auto model = Model({"a", "b", "c", " "});
  const WordNgram::State ab = model->Next(model->Next(model->Start(), 0), 1);
  EXPECT_GT(model->LogProb(ab, 1), -kUnknownWordPenalty / 2);  // abb is the beginning of abba
  EXPECT_LT(model->LogProb(ab, 2), -kUnknownWordPenalty / 2);  // no word begins with abc
}

TEST(ArpaTest, WordsAreReadWithoutTheSpecialOnes) {
  const auto words = ReadArpaWords(Arpa());
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_THAT(*words, ElementsAre("ab", "abba", "b", "cab"));
}

std::string Packed(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()), 0);
  std::string from = text;
  stream.next_in = reinterpret_cast<Bytef*>(from.data());
  stream.avail_in = static_cast<uInt>(from.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST(ArpaTest, GzipIsUnpacked) {
  EXPECT_FALSE(IsGzip(Arpa()));
  std::string text = Arpa();
  std::mt19937 random(3);
  while (text.size() < 3000000) {
    text.push_back(static_cast<char>('a' + random() % 20));
  }
  for (const std::string& one : {std::string(Arpa()), text, std::string()}) {
    ASSERT_TRUE(IsGzip(Packed(one)));
    const auto unpacked = UnpackGzip(Packed(one));
    ASSERT_TRUE(unpacked.ok()) << unpacked.status();
    EXPECT_TRUE(*unpacked == one);
  }
  // Several packed files in a row are one; zeros behind them are padding.
  const auto twice = UnpackGzip(absl::StrCat(Packed("ab"), Packed("c"), std::string(9, 0)));
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ(*twice, "abc");
  EXPECT_THAT(UnpackGzip(Packed(text).substr(0, 1000)).status().message(),
              HasSubstr("the file is cut short"));
  std::string damaged = Packed(text);
  damaged[5000] ^= 1;
  EXPECT_THAT(UnpackGzip(damaged).status().message(), HasSubstr("damaged data"));
  EXPECT_THAT(UnpackGzip(Packed(std::string(9000000, 'a'))).status().message(),
              HasSubstr("more than 200 times its size"));
}

}  // namespace
}  // namespace beamwright::fusion::words_testing
