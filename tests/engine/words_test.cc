// Words of answers, for every way in which texts are written as tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/request/answers.h"
#include "include/beamwright/engine.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::RandomTable;
using engine_testing::TableBundle;
using ::testing::ElementsAre;

using Hypotheses = google::protobuf::RepeatedPtrField<v1::Hypothesis>;

struct Written {
  v1::TextForm form;
  v1::SubwordMark mark;
  std::vector<std::string> tokens;  // behind <s> and </s>
};

std::shared_ptr<const DecodeModel> ModelOf(const Written& written, float frame_ms = 0) {
  bundle::Bundle bundle = TableBundle(RandomTable(4), {});
  v1::TextConfig& target = *bundle.config.mutable_target();
  target.set_form(written.form);
  target.set_mark(written.mark);
  target.clear_size();
  target.set_vocabulary("tokens.vocab");
  target.set_begin_token("<s>");
  target.mutable_end_tokens()->Clear();
  target.add_end_tokens("</s>");
  bundle.config.set_frame_ms(frame_ms);
  auto codec =
      bundle::TextCodec::Create(target, "<s>\n</s>\n" + absl::StrJoin(written.tokens, "\n") + "\n",
                                Vocabulary::Lines::kDistinct);
  EXPECT_TRUE(codec.ok()) << codec.status();
  bundle.target = *std::move(codec);
  auto model = DecodeModel::Compile(std::move(bundle));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

const Written kPieces = {
    v1::TEXT_FORM_PIECES, v1::SUBWORD_MARK_WORD_BEGIN, {"▁the", "▁c", "at", "▁dog", "▁"}};

void AddHypothesis(const DecodeModel& model, const std::vector<int32_t>& tokens, double score,
                   Hypotheses& list) {
  v1::Hypothesis& hypothesis = *list.Add();
  hypothesis.mutable_tokens()->Add(tokens.begin(), tokens.end());
  for (size_t i = 0; i < tokens.size(); ++i) {
    hypothesis.add_token_log_probs(-0.5f * static_cast<float>(i));
  }
  hypothesis.set_text(model.target().Decode(tokens));
  hypothesis.set_score(score);
}

std::vector<std::string> TextsOf(const v1::Hypothesis& hypothesis) {
  std::vector<std::string> texts;
  for (const v1::Word& word : hypothesis.words()) {
    texts.push_back(word.text());
  }
  return texts;
}

// For every form: a text's words are what white space separates, and each has the tokens that write
// it.
TEST(WordsTest, AreThoseOfTheTextInEveryForm) {
  const Written forms[] = {
      kPieces,
      {v1::TEXT_FORM_PIECES, v1::SUBWORD_MARK_CONTINUATION, {"un", "##aff", "##a", "able", "c"}},
      {v1::TEXT_FORM_PIECES, v1::SUBWORD_MARK_UNFINISHED, {"lo@@", "w@@", "er", "low", "new"}},
      {v1::TEXT_FORM_PIECES,
       v1::SUBWORD_MARK_WORD_END,
       {"lo", "w", "er</w>", "low</w>", "new</w>"}},
      {v1::TEXT_FORM_PIECES, v1::SUBWORD_MARK_BYTES, {"h", "Ã©", "Ġ", "Ġhi", "i"}},
      {v1::TEXT_FORM_PIECES, v1::SUBWORD_MARK_WORD_BEGIN, {"low", "￭er", "(￭", "￭-￭", "￭"}},
      {v1::TEXT_FORM_CHARACTERS, v1::SUBWORD_MARK_WORD_BEGIN, {"a", "b", " ", "é", "c d"}},
      {v1::TEXT_FORM_WHITESPACE, v1::SUBWORD_MARK_WORD_BEGIN, {"AH0", "B", "K", "S", "T"}},
  };
  std::mt19937 random(3);
  for (const Written& form : forms) {
    const auto model = ModelOf(form);
    for (int round = 0; round < 100; ++round) {
      std::vector<int32_t> tokens(random() % 8);
      for (int32_t& token : tokens) {
        token = static_cast<int32_t>(1 + random() % 6);  // the end token, too
      }
      Hypotheses list;
      AddHypothesis(*model, tokens, -1, list);
      FillWords(*model, list);
      const std::vector<std::string> expected =
          absl::StrSplit(list[0].text(), absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
      ASSERT_EQ(TextsOf(list[0]), expected) << list[0].ShortDebugString();
      for (const v1::Word& word : list[0].words()) {
        double log_prob = 0;
        std::vector<int32_t> own;
        for (int i = 0; i < word.num_tokens(); ++i) {
          own.push_back(list[0].tokens(word.first_token() + i));
          log_prob += list[0].token_log_probs(word.first_token() + i);
        }
        EXPECT_THAT(model->target().Decode(own), ::testing::HasSubstr(word.text()));
        EXPECT_EQ(word.posterior(), 1);
        EXPECT_FALSE(word.has_begin_ms());
        // An end token amid a word belongs to its place and not to its tokens.
        if (!absl::c_linear_search(own, 1)) {
          EXPECT_NEAR(word.confidence(), std::exp(log_prob / word.num_tokens()), 1e-6);
        }
      }
    }
  }
}

TEST(WordsTest, TokensOfScriptsWithoutSpacesAreWords) {
  const auto model =
      ModelOf({v1::TEXT_FORM_PIECES, v1::SUBWORD_MARK_WORD_BEGIN, {"▁", "旗", "山", "▁ab", "c"}});
  Hypotheses list;
  AddHypothesis(*model, {2, 3, 4, 5, 6, 3, 6, 1}, -1, list);
  FillWords(*model, list);
  EXPECT_THAT(TextsOf(list[0]), ElementsAre("旗", "山", "abc", "旗", "c"));
}

TEST(WordsTest, FramesAreTimes) {
  const auto model = ModelOf(kPieces, 40);
  Hypotheses list;
  AddHypothesis(*model, {2, 3, 4}, -1, list);
  for (const int frame : {3, 5, 9}) {
    list[0].add_token_frames(frame);
    list[0].add_token_durations(2);
  }
  FillWords(*model, list);
  ASSERT_THAT(TextsOf(list[0]), ElementsAre("the", "cat"));
  EXPECT_EQ(list[0].words(0).begin_ms(), 120);
  EXPECT_EQ(list[0].words(0).end_ms(), 200);
  EXPECT_EQ(list[0].words(1).begin_ms(), 200);
  EXPECT_EQ(list[0].words(1).end_ms(), 440);
}

TEST(WordsTest, APosteriorIsTheShareOfTheListWithTheWordInItsPlace) {
  const auto model = ModelOf(kPieces);
  Hypotheses list;
  AddHypothesis(*model, {2, 3, 4, 5, 1}, std::log(0.5), list);   // the cat dog
  AddHypothesis(*model, {2, 5, 1}, std::log(0.3), list);         // the dog
  AddHypothesis(*model, {5, 3, 4, 2, 1}, std::log(0.15), list);  // dog cat the
  AddHypothesis(*model, {2, 3, 4, 4, 5}, std::log(0.05), list);  // the catat dog
  FillWords(*model, list);
  ASSERT_THAT(TextsOf(list[0]), ElementsAre("the", "cat", "dog"));
  EXPECT_NEAR(list[0].words(0).posterior(), 0.85, 1e-9);
  EXPECT_NEAR(list[0].words(1).posterior(), 0.65, 1e-9);
  EXPECT_NEAR(list[0].words(2).posterior(), 0.85, 1e-9);
  EXPECT_FALSE(list[1].words(0).has_posterior());
}

TEST(WordsTest, ListsThatAreTooLongToBeAlignedHaveNoPosteriors) {
  const auto model = ModelOf(kPieces);
  Hypotheses list;
  AddHypothesis(*model, std::vector<int32_t>(3000, 2), -1, list);
  AddHypothesis(*model, std::vector<int32_t>(3000, 5), -2, list);
  FillWords(*model, list);
  EXPECT_EQ(list[0].words_size(), 3000);
  EXPECT_FALSE(list[0].words(0).has_posterior());
}

TEST(WordsTest, AnAnswerHasThemWhereTheyAreAskedFor) {
  const auto model = ModelOf(kPieces);
  const auto engine = *Engine::Start({1, 512, 1000});
  v1::Source source;
  source.mutable_ids()->add_ids(3);
  v1::DecodeOptions options;
  options.set_n_best(4);
  options.set_min_length(4);
  options.set_max_length(6);
  const auto without = engine->DecodeAndWait(model, source, options);
  options.set_words(true);
  const auto with = engine->DecodeAndWait(model, source, options);
  ASSERT_TRUE(without.ok() && with.ok()) << with.status();
  EXPECT_EQ(without->hypotheses(0).words_size(), 0);
  EXPECT_EQ(TextsOf(with->hypotheses(0)),
            (std::vector<std::string>(
                absl::StrSplit(with->hypotheses(0).text(), ' ', absl::SkipEmpty()))));
  ASSERT_GT(with->hypotheses(0).words_size(), 0) << with->ShortDebugString();
  // A stop string ends a text amid its tokens.
  const std::string last = with->hypotheses(0).words().rbegin()->text();
  options.add_stop_strings(last.substr(last.size() - 1));
  const auto stopped = engine->DecodeAndWait(model, source, options);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  for (const v1::Hypothesis& hypothesis : stopped->hypotheses()) {
    EXPECT_EQ(TextsOf(hypothesis),
              (std::vector<std::string>(absl::StrSplit(hypothesis.text(), ' ', absl::SkipEmpty()))))
        << hypothesis.ShortDebugString();
  }
}

}  // namespace
}  // namespace beamwright::engine
