// The special tokens that a model was trained with are found by what it believes: the model is a
// table, its training data greedy walks over that table under one framing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "tests/engine/table_bundle.h"
#include "tools/bundle/text_side.h"

namespace beamwright::tools {
namespace {

using ::testing::HasSubstr;

constexpr char kSourceVocabulary[] = "<unk>\n<s>\n</s>\na\nb\nc\nd\ne\n";
const std::vector<std::string> kTargets = {"<s>", "</s>", "<pad>", "u", "v", "w", "x"};

std::shared_ptr<const bundle::TextCodec> Codec(const v1::TextConfig& config,
                                               const std::string& vocabulary) {
  auto codec = bundle::TextCodec::Create(config, vocabulary);
  EXPECT_TRUE(codec.ok()) << codec.status();
  return codec.ok() ? *std::move(codec) : nullptr;
}

std::string TargetVocabulary() { return absl::StrJoin(kTargets, "\n") + "\n"; }

bundle::Bundle TextBundle(const std::vector<float>& table) {
  bundle::Bundle bundle = engine_testing::TableBundle(table, {});
  v1::TextConfig& source = *bundle.config.mutable_source();
  source.Clear();
  source.set_form(v1::TEXT_FORM_CHARACTERS);
  source.set_vocabulary("source.vocab");
  v1::TextConfig& target = *bundle.config.mutable_target();
  target.Clear();
  target.set_form(v1::TEXT_FORM_WHITESPACE);
  target.set_vocabulary("target.vocab");
  target.set_begin_token("<s>");
  target.add_end_tokens("</s>");
  bundle.source = Codec(source, kSourceVocabulary);
  bundle.target = Codec(target, TargetVocabulary());
  return bundle;
}

int64_t IdOf(const std::string& token) {
  return std::find(kTargets.begin(), kTargets.end(), token) - kTargets.begin();
}

// Words that anybody could write, with the likeliest tokens under `framing`; "</s>" ends them.
std::vector<KnownPair> TrainingData(const std::vector<float>& table, const Framing& framing,
                                    std::mt19937& random) {
  std::vector<KnownPair> pairs;
  while (pairs.size() < 12) {
    std::vector<int32_t> ids;
    std::string word;
    for (unsigned i = 0; i < 2 + random() % 5; ++i) {
      const auto letter = static_cast<int32_t>(random() % 5);
      word += static_cast<char>('a' + letter);
      ids.push_back(3 + letter);
    }
    ids.push_back(framing.source_begin.empty() ? 0 : 1);
    ids.push_back(framing.source_end.empty() ? 0 : 2);
    const int length = static_cast<int>(word.size()) + (framing.source_begin.empty() ? 0 : 1) +
                       (framing.source_end.empty() ? 0 : 1);
    for (int i = length; i < framing.pad_to_length; ++i) {
      ids.push_back(8);
    }
    int64_t state = engine_testing::FirstState(ids);
    int64_t token = IdOf(framing.target_begin);
    std::vector<std::string> target;
    while (target.size() < 6) {
      state = engine_testing::NextState(state, token);
      const float* line = &table[static_cast<size_t>(state * engine_testing::kVocabulary)];
      token = std::max_element(line + 3, line + 7) - line;
      target.push_back(kTargets[static_cast<size_t>(token)]);
    }
    pairs.push_back({0, word, absl::StrJoin(target, " ")});
  }
  return pairs;
}

TEST(Framing, IsThatOfTheTrainingData) {
  const std::vector<float> table = engine_testing::RandomTable(5);
  const bundle::Bundle bundle = TextBundle(table);
  const FramingChoices choices = UsualFramings(bundle);
  EXPECT_THAT(choices.source_begins, ::testing::ElementsAre("", "<s>"));
  EXPECT_THAT(choices.source_ends, ::testing::ElementsAre("", "</s>"));
  EXPECT_THAT(choices.target_begins, ::testing::ElementsAre("<s>", "</s>", "<pad>"));
  std::mt19937 random(5);
  for (const std::string& source_begin : choices.source_begins) {
    for (const std::string& source_end : choices.source_ends) {
      for (const std::string& target_begin : choices.target_begins) {
        const Framing trained{source_begin, source_end, target_begin};
        SCOPED_TRACE(ToString(trained));
        const auto found = FindFraming(bundle, kSourceVocabulary, TargetVocabulary(), choices,
                                       TrainingData(table, trained, random));
        ASSERT_TRUE(found.ok()) << found.status();
        EXPECT_EQ(found->framing, trained) << ToString(found->framing);
        ASSERT_EQ(found->evidence.size(), 12u);
        EXPECT_GE(found->lead, 0);
        EXPECT_GT(found->tokens, 0);
        EXPECT_THAT(found->evidence[0], HasSubstr(ToString(trained) + ": log-probability -"));
      }
    }
  }
}

// A model that gives all framings the same keeps its own.
TEST(Framing, StaysWherePairsDoNotTell) {
  const std::vector<float> table(engine_testing::kStates * engine_testing::kVocabulary,
                                 -std::log(7.0f));
  bundle::Bundle bundle = TextBundle(table);
  for (const Framing& own : {Framing{"", "", "<s>"}, Framing{"<s>", "</s>", "</s>"}}) {
    SetFraming(own, bundle.config);
    std::mt19937 random(6);
    const auto found =
        FindFraming(bundle, kSourceVocabulary, TargetVocabulary(),
                    {{"", "<s>"}, {"", "</s>"}, {"<s>", "</s>"}}, TrainingData(table, own, random));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->framing, own);
    EXPECT_NEAR(found->lead, 0, 1e-6);
    EXPECT_FALSE(found->is_sure());
  }
}

// A padding token counts in the encoder's sum: only sources of the length of training find the
// walk.
TEST(Framing, SourcesMayHaveBeenPadded) {
  const std::vector<float> table = engine_testing::RandomTable(5);
  bundle::Bundle bundle = TextBundle(table);
  constexpr char kPadded[] = "<unk>\n<s>\n</s>\na\nb\nc\nd\ne\n<pad>\n";
  bundle.config.mutable_source()->set_pad_token("<pad>");
  bundle.source = Codec(bundle.config.source(), kPadded);
  for (const int length : {0, 9, 20}) {
    std::mt19937 random(7);  // other framings lead this small table into the same states
    const Framing trained{"", "</s>", "<s>", length};
    const auto found = FindFraming(bundle, kPadded, TargetVocabulary(), UsualFramings(bundle),
                                   TrainingData(table, trained, random));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->framing, trained) << ToString(found->framing);
  }
}

TEST(Framing, PairsThatCannotBeRead) {
  EXPECT_THAT(ParsePairs("a\tu\n\nb v\n").status().message(),
              HasSubstr("line 3 is not a source and its target"));
  EXPECT_THAT(ParsePairs("a\t\n").status().message(), HasSubstr("line 1"));
  EXPECT_THAT(ParsePairs("a\t\xFF\n").status().message(), HasSubstr("line 1"));
  EXPECT_THAT(ParsePairs("\n\n").status().message(), HasSubstr("has no pairs"));
  const auto pairs = ParsePairs("a\tu v\r\nb\tw");
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  ASSERT_EQ(pairs->size(), 2u);
  EXPECT_EQ((*pairs)[0].target, "u v");
  EXPECT_EQ((*pairs)[1].line, 2);
  const bundle::Bundle bundle = TextBundle(engine_testing::RandomTable(5));
  EXPECT_THAT(FindFraming(bundle, kSourceVocabulary, TargetVocabulary(), UsualFramings(bundle),
                          {{7, "a", "z"}})
                  .status()
                  .message(),
              HasSubstr("line 7: "));
}

}  // namespace
}  // namespace beamwright::tools
