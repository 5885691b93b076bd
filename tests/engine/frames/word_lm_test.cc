// A word n-gram model behind the letters of a CTC model, against all labellings with the words of
// each text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "engine/model/parts.h"
#include "tests/engine/frames/ctc_bundle.h"
#include "tests/engine/frames/frame_models.h"

namespace beamwright::engine {
namespace {

using engine_testing::AllLabellings;
using engine_testing::Codec;
using engine_testing::Compiled;
using engine_testing::CtcBundle;
using engine_testing::CtcLogProbs;
using engine_testing::FeatureSource;
using engine_testing::Labels;
using engine_testing::RandomFeatures;
using engine_testing::Started;
using ::testing::HasSubstr;

constexpr char kArpa[] =
    "\\data\\\nngram 1=6\nngram 2=2\n\n\\1-grams:\n-1 <s> -0.3\n-0.8 </s>\n-3 <UNK>\n"
    "-0.9 ab -0.2\n-0.7 ba -0.1\n-1.2 cab -0.1\n\n\\2-grams:\n-0.1 ab ba\n-0.2 ba "
    "</s>\n\n\\end\\\n";

// Of decimal logarithms, written out.
double LogProbOf(const std::string& text) {
  const std::map<std::string, double> unigrams = {{"ab", -0.9}, {"ba", -0.7}, {"cab", -1.2}};
  const std::map<std::string, double> backoffs = {
      {"<s>", -0.3}, {"ab", -0.2}, {"ba", -0.1}, {"cab", -0.1}};
  std::string before = "<s>";
  double log10 = 0;
  double penalty = 0;
  const auto backoff = [&] { return backoffs.count(before) > 0 ? backoffs.at(before) : 0; };
  for (const std::string& word :
       std::vector<std::string>(absl::StrSplit(text, ' ', absl::SkipEmpty()))) {
    const bool is_known = unigrams.count(word) > 0;
    log10 +=
        before == "ab" && word == "ba" ? -0.1 : backoff() + (is_known ? unigrams.at(word) : -3);
    penalty += is_known ? 0 : 10;
    before = is_known ? word : "<UNK>";
  }
  log10 += before == "ba" ? -0.2 : backoff() - 0.8;
  return log10 * std::log(10) - penalty;
}

bundle::Bundle LetterBundle(const std::string& arpa) {
  bundle::Bundle bundle = CtcBundle({});
  bundle.config.mutable_target()->set_form(v1::TEXT_FORM_CHARACTERS);
  bundle.target = Codec(bundle.config.target(), "_\na\nb\nc\n \n");
  v1::ScorerConfig& scorer = *bundle.config.add_scorers();
  scorer.set_name("lm");
  scorer.mutable_ngram()->set_file("words.arpa");
  bundle.ngrams["lm"] = arpa;
  return bundle;
}

std::string TextOf(const Labels& labels) {
  std::string text;
  for (const int32_t label : labels) {
    text += "_abc "[label];
  }
  return text;
}

using Scored = std::vector<std::pair<double, Labels>>;

// A beam that prunes nothing answers the best four of `all` labellings with their scores.
void ExpectBest(const engine_testing::ModelPtr& model, const std::vector<float>& features,
                v1::DecodeOptions options, Scored all) {
  std::sort(all.begin(), all.end(), std::greater<>());
  options.set_beam_size(256);
  options.set_n_best(4);
  const auto answer = Started()->DecodeAndWait(model, FeatureSource(features), options);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->hypotheses_size(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(answer->hypotheses(i).score(), all[static_cast<size_t>(i)].first, 1e-4);
    EXPECT_THAT(answer->hypotheses(i).tokens(),
                ::testing::ElementsAreArray(all[static_cast<size_t>(i)].second));
  }
}

TEST(WordLanguageModelTest, AWideBeamFindsTheBestOfAllLabellings) {
  const auto model = Compiled(LetterBundle(kArpa));
  ASSERT_NE(model, nullptr);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto features = RandomFeatures(3, seed);
    for (const float weight : {0.5F, 2.0F}) {
      Scored scored;
      for (const auto& [labels, alignments] : AllLabellings(CtcLogProbs(features), 0)) {
        scored.emplace_back(std::log(alignments.sum) + double{weight} * LogProbOf(TextOf(labels)),
                            labels);
      }
      v1::DecodeOptions options;
      v1::FusionWeight& fusion = *options.add_fusion();
      fusion.set_name("lm");
      fusion.set_weight(weight);
      ExpectBest(model, features, options, std::move(scored));
    }
  }
}

// KenLM's files of kArpa, as its `build_binary` writes them, are the same model.
TEST(WordLanguageModelTest, ABundleMayHaveABinaryOfKenlm) {
  const auto arpa = Compiled(LetterBundle(kArpa));
  for (const std::string name : {"letters.trie", "letters.probing"}) {
    SCOPED_TRACE(name);
    std::ifstream in(std::string(BEAMWRIGHT_SOURCE_DIR) + "/tests/engine/fusion/data/" + name,
                     std::ios::binary);
    const auto binary = Compiled(LetterBundle((std::stringstream() << in.rdbuf()).str()));
    ASSERT_NE(binary, nullptr);
    EXPECT_EQ(binary->parts().scorers[0].note, arpa->parts().scorers[0].note);
    for (uint32_t seed = 0; seed < 5; ++seed) {
      const auto source = FeatureSource(RandomFeatures(6, seed));
      v1::DecodeOptions options;
      options.set_n_best(4);
      // The two files bound words inside of them differently, so that nothing may be pruned.
      options.set_beam_size(name == "letters.trie" ? 8 : 256);
      v1::FusionWeight& fusion = *options.add_fusion();
      fusion.set_name("lm");
      fusion.set_weight(1);
      const auto answer = Started()->DecodeAndWait(binary, source, options);
      const auto expected = Started()->DecodeAndWait(arpa, source, options);
      ASSERT_TRUE(answer.ok()) << answer.status();
      ASSERT_TRUE(expected.ok()) << expected.status();
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(answer->hypotheses(i).text(), expected->hypotheses(i).text());
        EXPECT_NEAR(answer->hypotheses(i).score(), expected->hypotheses(i).score(), 1e-4);
      }
    }
  }
}

// Of all labellings, those of listed words, with a reward for each word.
TEST(WordLanguageModelTest, ALexiconAndARewardForWords) {
  bundle::Bundle bundle = LetterBundle(kArpa);
  v1::ScorerConfig& scorer = *bundle.config.add_scorers();
  scorer.set_name("words");
  scorer.mutable_ngram()->set_file("words.txt");
  bundle.ngrams["words"] = "ab\nba b a\n\nc\n";
  const auto model = Compiled(std::move(bundle));
  ASSERT_NE(model, nullptr);
  const auto is_listed = [](const std::string& text) {
    for (const std::string& word :
         std::vector<std::string>(absl::StrSplit(text, ' ', absl::SkipEmpty()))) {
      if (word != "ab" && word != "ba" && word != "c") {
        return false;
      }
    }
    return true;
  };
  const auto num_words = [](const std::string& text) {
    return std::vector<std::string>(absl::StrSplit(text, ' ', absl::SkipEmpty())).size();
  };
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto features = RandomFeatures(3, seed);
    for (const bool with_model : {false, true}) {
      Scored scored;
      for (const auto& [labels, alignments] : AllLabellings(CtcLogProbs(features), 0)) {
        const std::string text = TextOf(labels);
        if (is_listed(text)) {
          scored.emplace_back(std::log(alignments.sum) +
                                  1.5 * static_cast<double>(num_words(text)) +
                                  (with_model ? 0.5 * LogProbOf(text) : 0),
                              labels);
        }
      }
      v1::DecodeOptions options;
      const auto fuse = [&options](const char* name, float weight) {
        v1::FusionWeight& fusion = *options.add_fusion();
        fusion.set_name(name);
        fusion.set_weight(weight);
      };
      fuse("words", 1);
      fuse("word_count", -1.5);
      if (with_model) {
        fuse("lm", 0.5);
      }
      ExpectBest(model, features, options, std::move(scored));
    }
  }
}

// Whether `labels` from `at` on are some of the spellings in a row.
bool AreSpelled(const Labels& labels, size_t at, const std::vector<Labels>& spellings) {
  return at == labels.size() ||
         std::any_of(spellings.begin(), spellings.end(), [&](const Labels& spelling) {
           return labels.size() - at >= spelling.size() &&
                  std::equal(spelling.begin(), spelling.end(),
                             labels.begin() + static_cast<std::ptrdiff_t>(at)) &&
                  AreSpelled(labels, at + spelling.size(), spellings);
         });
}

// Of all labellings, those that a lexicon's spellings make up: its words end with tokens of their
// own, begin with such, or have one between them, which the last word may lack.
TEST(WordLanguageModelTest, ALexiconMaySpellItsWordsInTokens) {
  struct {
    const char* file;
    std::vector<Labels> spellings;
    bool is_separated;  // by label 4
  } const cases[] = {
      {"x a c\ny\ta b c\nz d\nout a z\n", {{1, 3}, {1, 2, 3}, {4}}, false},
      {"x c a\ny c a b\nz d\n\n", {{3, 1}, {3, 1, 2}, {4}}, false},
      {"x a b d\nx b a d\ny c c d\r\n", {{1, 2, 4}, {2, 1, 4}, {3, 3, 4}}, true},
  };
  for (const auto& each : cases) {
    bundle::Bundle bundle = CtcBundle({});
    v1::ScorerConfig& scorer = *bundle.config.add_scorers();
    scorer.set_name("words");
    scorer.mutable_ngram()->set_file("words.txt");
    bundle.ngrams["words"] = each.file;
    const auto model = Compiled(std::move(bundle));
    ASSERT_NE(model, nullptr);
    EXPECT_THAT(model->parts().scorers[0].note, HasSubstr("a lexicon of 3 spellings in tokens"));
    for (uint32_t seed = 0; seed < 10; ++seed) {
      const auto features = RandomFeatures(4, seed);
      Scored scored;
      for (const auto& [labels, alignments] : AllLabellings(CtcLogProbs(features), 0)) {
        Labels whole = labels;
        if (each.is_separated) {  // separators between words as often as one likes
          whole.push_back(4);
          whole.erase(std::unique(whole.begin(), whole.end(),
                                  [](int32_t a, int32_t b) { return a == 4 && b == 4; }),
                      whole.end());
          whole.erase(whole.begin(), whole.begin() + (whole.front() == 4 ? 1 : 0));
        }
        if (AreSpelled(whole, 0, each.spellings)) {
          scored.emplace_back(std::log(alignments.sum), labels);
        }
      }
      v1::DecodeOptions options;
      v1::FusionWeight& fusion = *options.add_fusion();
      fusion.set_name("words");
      fusion.set_weight(1);
      ExpectBest(model, features, options, std::move(scored));
    }
  }
}

TEST(WordLanguageModelTest, AModelOfOtherWordsIsRefusedWithCounts) {
  std::string capitals = kArpa;
  for (char& letter : capitals) {
    letter = letter == 'b' || letter == 'c' ? static_cast<char>(letter - 32) : letter;
  }
  const auto model = DecodeModel::Compile(LetterBundle(capitals));
  EXPECT_THAT(model.status().message(),
              HasSubstr("words.arpa: of its 3 words 0 are tokens of the target vocabulary, and 0 "
                        "can be spelled with its tokens"));
}

TEST(WordLanguageModelTest, ALexiconOfOtherWordsIsRefusedWithCounts) {
  bundle::Bundle bundle = LetterBundle("AB\nBA\nba\n");
  bundle.config.mutable_scorers(0)->mutable_ngram()->set_file("words.txt");
  EXPECT_THAT(DecodeModel::Compile(std::move(bundle)).status().message(),
              HasSubstr("words.txt: of its 3 words 1 can be spelled with the tokens"));
}

TEST(WordLanguageModelTest, SpellingsWithoutBordersAreRefused) {
  bundle::Bundle bundle = CtcBundle({});
  v1::ScorerConfig& scorer = *bundle.config.add_scorers();
  scorer.set_name("words");
  scorer.mutable_ngram()->set_file("words.txt");
  bundle.ngrams["words"] = "x a b\ny b a\n";
  EXPECT_THAT(DecodeModel::Compile(std::move(bundle)).status().message(),
              HasSubstr("where a token that is nowhere else ends, or begins, each of them"));
}

TEST(WordLanguageModelTest, WhatATokenModelLeavesOutIsCounted) {
  const auto model =
      Compiled(LetterBundle("\\data\\\nngram 1=5\n\n\\1-grams:\n-1 <s>\n-0.8 </s>\n-0.9 a\n-0.7 "
                            "b\n-1.2 cab\n\n\\end\\\n"));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->parts().scorers[0].note,
            "an n-gram model of tokens; of its 3 words 1 are no tokens and were left out");
}

}  // namespace
}  // namespace beamwright::engine
