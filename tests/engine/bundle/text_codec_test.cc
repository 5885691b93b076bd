#include "engine/bundle/text_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "tests/engine/bundle/written.h"

namespace beamwright::bundle {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::TextConfig Config(v1::TextForm form) {
  v1::TextConfig config;
  config.set_form(form);
  if (form != v1::TEXT_FORM_IDS) {
    config.set_vocabulary("tokens.vocab");
  }
  return config;
}

std::unique_ptr<TextCodec> Make(const v1::TextConfig& config, const std::string& vocabulary) {
  absl::StatusOr<std::unique_ptr<TextCodec>> codec = TextCodec::Create(config, vocabulary);
  EXPECT_TRUE(codec.ok()) << codec.status();
  return codec.ok() ? *std::move(codec) : nullptr;
}

std::string CreateError(const v1::TextConfig& config, const std::string& vocabulary) {
  const absl::Status status = TextCodec::Create(config, vocabulary).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

std::string EncodeError(const TextCodec& codec, const std::string& text) {
  const absl::Status status = codec.Encode(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(CharactersTest, EncodesCharactersNotBytes) {
  const auto codec = Make(Config(v1::TEXT_FORM_CHARACTERS), "a\né\n \n€\n");
  EXPECT_THAT(codec->Encode("é a€")->ids, ElementsAre(1, 2, 0, 3));
  EXPECT_EQ(codec->Decode({1, 2, 0, 3}), "é a€");
  EXPECT_EQ(codec->size(), 4);
  EXPECT_EQ(codec->unknown_id(), -1);
}

TEST(WrittenTest, TokensOfListsWriteWhatDecodeWrites) {
  ExpectWrittenInARow(*Make(Config(v1::TEXT_FORM_CHARACTERS), "a\né\n \n€\n"));
  ExpectWrittenInARow(*Make(Config(v1::TEXT_FORM_WHITESPACE), "a\nbc\n€\n"));
  ExpectWrittenInARow(*Make(Config(v1::TEXT_FORM_PIECES), "▁a\nb\n▁c▁d\n€\n"));
  v1::TextConfig ids = Config(v1::TEXT_FORM_IDS);
  ids.set_size(12);
  ids.add_end_tokens("3");
  ExpectWrittenInARow(*Make(ids, ""));
}

TEST(CharactersTest, WithoutUnknownTokenTheCharacterIsNamed) {
  const auto codec = Make(Config(v1::TEXT_FORM_CHARACTERS), "n\na\n");
  EXPECT_EQ(EncodeError(*codec, "naïn"),
            "text: character 2, 'ï' (U+00ef), is not in the model's vocabulary, which has no "
            "unknown token");
  EXPECT_EQ(EncodeError(*codec, ""), "text: is empty");
  EXPECT_EQ(EncodeError(*codec, "na\xC3"), "text: not UTF-8 at byte 2");
}

// A special token is in the vocabulary: that it is not would be no help.
TEST(WhitespaceTest, ASpecialTokenIsCalledSpecial) {
  v1::TextConfig config = Config(v1::TEXT_FORM_WHITESPACE);
  config.add_end_tokens("</s>");
  EXPECT_THAT(EncodeError(*Make(config, "</s>\na\n<unk>\n"), "a </s>"),
              HasSubstr("word 1, '</s>', is a special token"));
  config.set_unknown_token("<unk>");
  const auto codec = Make(config, "</s>\na\n<unk>\n");
  EXPECT_THAT(std::string(codec->EncodePart("a </s>").status().message()),
              HasSubstr("token 1 of 'a </s>' is a special token"));
  EXPECT_THAT(std::string(codec->EncodePart("a b </s>").status().message()),
              HasSubstr("token 1 of 'a b </s>' is not in the vocabulary"));
}

TEST(CharactersTest, UnknownPositionsAreThoseOfTheIds) {
  v1::TextConfig config = Config(v1::TEXT_FORM_CHARACTERS);
  config.set_unknown_token("<unk>");
  config.set_begin_token("<s>");
  config.add_end_tokens("</s>");
  const auto codec = Make(config, "<s>\n</s>\n<unk>\na\n");
  const absl::StatusOr<EncodedText> text = codec->Encode("xa€");
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(text->ids, ElementsAre(0, 2, 3, 2, 1));
  EXPECT_THAT(text->unknown_positions, ElementsAre(1, 3));
}

TEST(CharactersTest, TextCannotSpellSpecialTokens) {
  v1::TextConfig config = Config(v1::TEXT_FORM_CHARACTERS);
  config.set_unknown_token("?");
  config.set_pad_token("_");
  config.add_end_tokens("$");
  const auto codec = Make(config, "_\n$\n?\na\n");
  const absl::StatusOr<EncodedText> text = codec->Encode("a_$?");
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(text->ids, ElementsAre(3, 2, 2, 2, 1));
  EXPECT_THAT(text->unknown_positions, ElementsAre(1, 2, 3));
}

TEST(CharactersTest, LowercasesOnlyWhenAsked) {
  v1::TextConfig config = Config(v1::TEXT_FORM_CHARACTERS);
  config.set_unknown_token("<unk>");
  const std::string vocabulary = "<unk>\na\né\n";
  EXPECT_THAT(Make(config, vocabulary)->Encode("AÉ")->ids, ElementsAre(0, 0));
  config.set_lowercase(true);
  EXPECT_THAT(Make(config, vocabulary)->Encode("AÉ")->ids, ElementsAre(1, 2));
}

TEST(WhitespaceTest, SplitsOnAsciiWhiteSpaceAndJoinsBySingleSpaces) {
  const auto codec = Make(Config(v1::TEXT_FORM_WHITESPACE), "AA\nB\nK\n");
  EXPECT_THAT(codec->Encode("  K\tAA\r\n\v\fB ")->ids, ElementsAre(2, 0, 1));
  EXPECT_EQ(codec->Decode({2, 0, 1}), "K AA B");
  EXPECT_EQ(EncodeError(*codec, " \t"), "text: holds nothing but white space");
  EXPECT_THAT(EncodeError(*codec, "K xyz"), HasSubstr("word 1, 'xyz',"));
}

TEST(WhitespaceTest, SpecialTokensAreLeftOutOfTextTheUnknownTokenIsNot) {
  v1::TextConfig config = Config(v1::TEXT_FORM_WHITESPACE);
  config.set_begin_token("<s>");
  config.add_end_tokens("</s>");
  config.add_end_tokens("<stop>");
  config.set_pad_token("<pad>");
  config.set_unknown_token("<unk>");
  const auto codec = Make(config, "<s>\n</s>\n<stop>\n<pad>\n<unk>\nA\n");
  EXPECT_EQ(codec->Decode({0, 5, 3, 4, 5, 2, 1}), "A <unk> A");
  EXPECT_EQ(codec->Decode({}), "");
  EXPECT_EQ(codec->Decode({1}), "");
  EXPECT_EQ(codec->Decode({5, 6, -1}), "A <6> <-1>");
  EXPECT_THAT(codec->Encode("</s> A")->unknown_positions, ElementsAre(1));
}

TEST(WhitespaceTest, TokensWithWhiteSpaceAreRefused) {
  EXPECT_THAT(CreateError(Config(v1::TEXT_FORM_WHITESPACE), "A\nB C\n"),
              HasSubstr("vocabulary: 'tokens.vocab': line 2: 'B C' contains white space"));
}

std::unique_ptr<TextCodec> MakeColumns(v1::TextForm form, const std::string& vocabulary) {
  auto codec = TextCodec::Create(Config(form), vocabulary, Vocabulary::Lines::kColumns);
  EXPECT_TRUE(codec.ok()) << codec.status();
  return codec.ok() ? *std::move(codec) : nullptr;
}

// Of a model's columns two may be written alike: ids stay apart, and text is read as the last.
TEST(ColumnsTest, MayShareATextOrHaveNone) {
  const auto codec = MakeColumns(v1::TEXT_FORM_CHARACTERS, "<blank>\na\n\n \na\n \n");
  EXPECT_EQ(codec->size(), 6);
  EXPECT_EQ(codec->Decode({1, 3, 2, 4, 5}), "a a ");
  EXPECT_THAT(codec->Encode("a a ")->ids, ElementsAre(4, 5, 4, 5));
  EXPECT_EQ(codec->TokenText(1), "a");
  EXPECT_EQ(codec->TokenText(2), "");
  EXPECT_EQ(codec->TokenId("a"), 4);
  EXPECT_EQ(codec->TokenId(""), -1);
  EXPECT_THAT(CreateError(Config(v1::TEXT_FORM_CHARACTERS), "a\n \na\n"),
              HasSubstr("line 3: 'a' is in line 1 already"));
}

TEST(ColumnsTest, TokensThatSteerAModelWriteNothing) {
  const auto codec = MakeColumns(v1::TEXT_FORM_PIECES, "<|en|>\n▁a\n<|pnc|>\nb\n▁a\n");
  EXPECT_EQ(codec->Decode({0, 1, 2, 3, 4}), "ab a");
  EXPECT_EQ(codec->Written(0, /*is_first=*/true), "");
  EXPECT_EQ(codec->TokenId("<|en|>"), 0);
  EXPECT_EQ(Make(Config(v1::TEXT_FORM_PIECES), "<|en|>\n▁a\n")->Decode({0, 1}), "<|en|> a");
}

TEST(ColumnsTest, TokensWithSpacesBetweenMustHaveAText) {
  const absl::Status status =
      TextCodec::Create(Config(v1::TEXT_FORM_WHITESPACE), "a\n\nb\n", Vocabulary::Lines::kColumns)
          .status();
  EXPECT_THAT(status.message(), HasSubstr("line 2 is empty"));
}

TEST(CharactersTest, TokensOfSeveralCharactersAreReadWhereNoneIsLeftOver) {
  const auto codec = Make(Config(v1::TEXT_FORM_CHARACTERS), "a\nab\nbc\n<mask>\n");
  EXPECT_THAT(codec->Encode("abc")->ids, ElementsAre(0, 2));  // not "ab" and a rest
  EXPECT_THAT(codec->Encode("a<mask>ab")->ids, ElementsAre(0, 3, 1));
  EXPECT_THAT(EncodeError(*codec, "abcc"), HasSubstr("character 1, 'b'"));
}

TEST(PiecesTest, CharactersOfScriptsWithoutSpacesBearNoMark) {
  for (const std::string vocabulary :
       {"<blk>\n▁HE\nLLO\n▁\n旗\n山\n", "<blk>\n▁HE\nLLO\n▁I\n旗\n山\n"}) {
    const auto codec = Make(Config(v1::TEXT_FORM_PIECES), vocabulary);
    EXPECT_THAT(codec->Encode("旗山")->ids, ElementsAre(4, 5));
    EXPECT_THAT(codec->Encode("HELLO旗山")->ids, ElementsAre(1, 2, 4, 5));
    EXPECT_THAT(codec->Encode("HELLO 旗山")->ids, ElementsAre(1, 2, 4, 5));
    EXPECT_THAT(codec->Encode("旗 山 HELLO")->ids, ElementsAre(4, 5, 1, 2));
    EXPECT_EQ(codec->Decode({4, 5, 1, 2}), "旗山 HELLO");
  }
  // Pieces of a model that marks them.
  const auto marked = Make(Config(v1::TEXT_FORM_PIECES), "▁\n旗\n山\n▁山\n");
  EXPECT_THAT(marked->Encode("旗山")->ids, ElementsAre(0, 1, 2));
}

TEST(PiecesTest, TextOfTokensThatBearNoMarkIsRead) {
  const auto codec = Make(Config(v1::TEXT_FORM_PIECES), "ab\nc▁\n▁d\n");
  EXPECT_THAT(codec->Encode("abc ab")->ids, ElementsAre(0, 1, 0));
  EXPECT_THAT(codec->Encode("d")->ids, ElementsAre(2));
  EXPECT_EQ(codec->Decode({1}), "c ");
  EXPECT_THAT(codec->Encode("c ")->ids, ElementsAre(1));
}

// The text of an answer, read as a target, is tokens that write the same text.
TEST(TextLawTest, WhateverIsWrittenIsRead) {
  const std::vector<std::string> parts = {"a", "b", "é", "▁",  "旗", "山",
                                          "<", ">", "|", "##", "@@", "ก"};
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    const v1::TextForm form = std::vector<v1::TextForm>{
        v1::TEXT_FORM_CHARACTERS, v1::TEXT_FORM_WHITESPACE, v1::TEXT_FORM_PIECES}[below(3)];
    v1::TextConfig config = Config(form);
    std::string vocabulary = "<unk>\n";
    const size_t size = 1 + below(8);
    for (size_t token = 0; token < size; ++token) {
      for (size_t part = 0; part <= below(3); ++part) {
        const bool spaces = form == v1::TEXT_FORM_CHARACTERS && below(4) == 0;
        vocabulary += spaces ? " " : parts[below(parts.size())];
      }
      vocabulary += "\n";
    }
    if (below(2) == 0) {
      config.set_unknown_token("<unk>");
    }
    const auto codec = TextCodec::Create(config, vocabulary, Vocabulary::Lines::kColumns);
    ASSERT_TRUE(codec.ok()) << codec.status();
    std::vector<int32_t> ids;
    for (size_t i = 0; i <= below(6); ++i) {
      ids.push_back(static_cast<int32_t>(below(size + 1)));
    }
    const std::string text = (*codec)->Decode(ids);
    if (text.empty()) {
      continue;
    }
    const absl::StatusOr<std::vector<int32_t>> again = (*codec)->EncodePart(text);
    ASSERT_TRUE(again.ok()) << again.status() << " of '" << text << "' with\n" << vocabulary;
    // White space between words is read as one space.
    const std::string written = (*codec)->Decode(*again);
    ++read;
    if (form != v1::TEXT_FORM_PIECES) {
      EXPECT_EQ(written, text) << vocabulary;
    }
  }
  EXPECT_GT(read, 2000);
}

TEST(IdsTest, ReadsNoTextAndWritesNumbers) {
  v1::TextConfig config = Config(v1::TEXT_FORM_IDS);
  config.set_size(5);
  config.set_begin_token("0");
  config.add_end_tokens("4");
  const auto codec = Make(config, "");
  EXPECT_EQ(codec->size(), 5);
  EXPECT_EQ(codec->begin_id(), 0);
  EXPECT_THAT(codec->end_ids(), ElementsAre(4));
  EXPECT_EQ(codec->Decode({0, 3, 1, 4}), "3 1");
  EXPECT_EQ(codec->Decode({5}), "<5>");
  EXPECT_THAT(EncodeError(*codec, "3 1"), HasSubstr("send ids"));
}

TEST(IdsTest, SpecialTokensAreIdsInRangeWrittenPlainly) {
  for (const char* bad : {"5", "-1", "x", "01", "+1", " 1", "1 "}) {
    v1::TextConfig config = Config(v1::TEXT_FORM_IDS);
    config.set_size(5);
    config.add_end_tokens(bad);
    EXPECT_THAT(CreateError(config, ""), HasSubstr("end_tokens[0]: '")) << bad;
  }
}

TEST(IdsTest, AVocabularyGivesThemText) {
  v1::TextConfig config = Config(v1::TEXT_FORM_IDS);
  config.set_vocabulary("tokens.vocab");
  EXPECT_EQ(Make(config, "A\nB\n")->Decode({1, 0}), "B A");
}

TEST(CreateTest, FieldsThatMakeNoSenseAreNamed) {
  v1::TextConfig config = Config(v1::TEXT_FORM_CHARACTERS);
  config.clear_vocabulary();
  EXPECT_THAT(CreateError(config, ""), HasSubstr("vocabulary: is not set"));
  config = Config(v1::TEXT_FORM_WHITESPACE);
  config.set_size(3);
  EXPECT_THAT(CreateError(config, "A\n"), HasSubstr("size: "));
  config = Config(v1::TEXT_FORM_IDS);
  config.set_size(-1);
  EXPECT_THAT(CreateError(config, ""), HasSubstr("size: -1 is negative"));
  config = Config(v1::TEXT_FORM_IDS);
  config.set_lowercase(true);
  EXPECT_THAT(CreateError(config, ""), HasSubstr("lowercase: "));
}

TEST(CreateTest, EveryMissingOrRepeatedSpecialTokenIsNamed) {
  v1::TextConfig config = Config(v1::TEXT_FORM_WHITESPACE);
  config.set_begin_token("b");
  config.set_pad_token("p");
  config.set_unknown_token("u");
  config.add_end_tokens("A");
  config.add_end_tokens("A");
  EXPECT_EQ(CreateError(config, "A\n"),
            "begin_token: 'b' is not in the vocabulary; pad_token: 'p' is not in the vocabulary; "
            "unknown_token: 'u' is not in the vocabulary; end_tokens[1]: 'A' is given twice");
}

TEST(CreateTest, VocabularyFaultsNameTheLine) {
  const v1::TextConfig config = Config(v1::TEXT_FORM_CHARACTERS);
  const std::string place = "vocabulary: 'tokens.vocab': ";
  EXPECT_EQ(CreateError(config, "a\n\nb\n"), place + "line 2: is empty; every line is a token");
  EXPECT_EQ(CreateError(config, "a\nb\na"), place + "line 3: 'a' is in line 1 already");
  EXPECT_THAT(CreateError(config, "a\r\nb\r\n"), HasSubstr("line 1: ends with a carriage return"));
  EXPECT_THAT(CreateError(config, "a\nb\xFF\n"), HasSubstr("line 2: not UTF-8 at byte 1"));
  EXPECT_THAT(CreateError(config,
                          "\xEF\xBB\xBF"
                          "a\n"),
              HasSubstr("byte order mark"));
  EXPECT_THAT(CreateError(config, ""), HasSubstr("the file is empty"));
  EXPECT_THAT(CreateError(config, "a\n\n"), HasSubstr("line 2: is empty"));
}

// Text -> ids -> text gives the text back, whatever it is made of.
TEST(RoundTripTest, CharactersAndWords) {
  const std::vector<std::string> tokens = {"a", "b", "é", "€", "😀", "'", "-", "z"};
  std::string vocabulary;
  for (const std::string& token : tokens) {
    absl::StrAppend(&vocabulary, token, "\n");
  }
  const auto characters = Make(Config(v1::TEXT_FORM_CHARACTERS), vocabulary);
  const auto words = Make(Config(v1::TEXT_FORM_WHITESPACE), vocabulary);
  std::mt19937 random(3);
  for (int run = 0; run < 300; ++run) {
    std::string joined;
    std::string spaced;
    std::vector<int32_t> expected;
    const size_t length = 1 + random() % 30;
    for (size_t i = 0; i < length; ++i) {
      const size_t id = random() % tokens.size();
      expected.push_back(static_cast<int32_t>(id));
      joined += tokens[id];
      spaced += (i == 0 ? "" : " ") + tokens[id];
    }
    EXPECT_EQ(characters->Encode(joined)->ids, expected);
    EXPECT_EQ(characters->Decode(expected), joined);
    EXPECT_EQ(words->Encode(spaced)->ids, expected);
    EXPECT_EQ(words->Decode(expected), spaced);
  }
}

TEST(PiecesTest, AreJoinedAndTheMarkBeginsAWord) {
  const auto codec =
      Make(Config(v1::TEXT_FORM_PIECES), "<blk>\n\u2581he\nllo\n\u2581\nl\no\nworld\n");
  EXPECT_EQ(codec->Decode({1, 2, 3, 6}), "hello world");
  EXPECT_EQ(codec->Decode({2, 1}), "llo he");
  EXPECT_EQ(codec->Decode({}), "");
  EXPECT_EQ(codec->Decode({3}), "");
}

// The longest piece first, from the left, whatever a trained model would have cut.
TEST(PiecesTest, TextIsCutIntoTheLongestPieces) {
  const auto codec =
      Make(Config(v1::TEXT_FORM_PIECES), "<blk>\n\u2581he\nllo\n\u2581\nl\no\nworld\n");
  EXPECT_THAT(codec->Encode("hello  world")->ids, ElementsAre(1, 2, 3, 6));
  EXPECT_THAT(codec->Encode(" helo")->ids, ElementsAre(1, 4, 5));
  EXPECT_THAT(EncodeError(*codec, "hex"), HasSubstr("'x'"));
  EXPECT_EQ(EncodeError(*codec, " \t"), "text: holds nothing but white space");
}

TEST(PiecesTest, AreLowercasedFirst) {
  v1::TextConfig config = Config(v1::TEXT_FORM_PIECES);
  config.set_lowercase(true);
  EXPECT_THAT(Make(config, "\u2581a\nb\n")->Encode("AB")->ids, ElementsAre(0, 1));
}

}  // namespace
}  // namespace beamwright::bundle
