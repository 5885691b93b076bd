// Pieces with the marks of other tokenizers than SentencePiece.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "engine/bundle/text_codec.h"
#include "tests/engine/bundle/written.h"

namespace beamwright::bundle {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<TextCodec> Marked(v1::SubwordMark mark, const std::string& vocabulary,
                                  const std::string& unknown = "") {
  v1::TextConfig config;
  config.set_form(v1::TEXT_FORM_PIECES);
  config.set_mark(mark);
  config.set_vocabulary("tokens.vocab");
  config.set_unknown_token(unknown);
  auto codec = TextCodec::Create(config, vocabulary, Vocabulary::Lines::kColumns);
  EXPECT_TRUE(codec.ok()) << codec.status();
  return codec.ok() ? *std::move(codec) : nullptr;
}

TEST(MarkedCodecTest, WordPieceGoesOnWithAWord) {
  const auto codec =
      Marked(v1::SUBWORD_MARK_CONTINUATION, "[UNK]\nun\n##aff\n##able\nable\n中\n文\n", "[UNK]");
  EXPECT_EQ(codec->Decode({1, 2, 3, 4}), "unaffable able");
  EXPECT_THAT(codec->Encode("unaffable able")->ids, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(codec->Decode({5, 6, 4}), "中文 able");
  EXPECT_THAT(codec->Encode("中文 able")->ids, ElementsAre(5, 6, 4));
  const auto text = codec->Encode("able x");
  EXPECT_THAT(text->ids, ElementsAre(4, 0));
  EXPECT_THAT(text->unknown_positions, ElementsAre(1));
}

TEST(MarkedCodecTest, TokensWriteWhatDecodeWrites) {
  ExpectWrittenInARow(*Marked(v1::SUBWORD_MARK_CONTINUATION, "un\n##aff\nable\n中\n文\n"));
  ExpectWrittenInARow(*Marked(v1::SUBWORD_MARK_UNFINISHED, "lo@@\nw@@\ner\nlow\n中\n"));
  ExpectWrittenInARow(*Marked(v1::SUBWORD_MARK_WORD_END, "lo\nw\ner</w>\nlow</w>\n"));
  ExpectWrittenInARow(*Marked(v1::SUBWORD_MARK_BYTES, "h\nÃ©\nĠ\næ\nĸĩ\nĠhi\n"));
  ExpectWrittenInARow(*Marked(v1::SUBWORD_MARK_ICEFALL_BYTES, "▁h\nũŏ\nƍ\nĹ\nĨ\n"));
}

TEST(MarkedCodecTest, SubwordNmtSaysThatAWordGoesOn) {
  const auto codec = Marked(v1::SUBWORD_MARK_UNFINISHED, "lo@@\nw@@\ner\nlow\nnew\n");
  EXPECT_EQ(codec->Decode({0, 1, 2, 4}), "lower new");
  EXPECT_THAT(codec->Encode("lower new")->ids, ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(codec->Encode("low")->ids, ElementsAre(3));
}

TEST(MarkedCodecTest, AMarkMayEndAWord) {
  const auto codec = Marked(v1::SUBWORD_MARK_WORD_END, "lo\nw\ner</w>\nlow</w>\nnew</w>\n");
  EXPECT_EQ(codec->Decode({0, 1, 2, 4}), "lower new");
  EXPECT_THAT(codec->Encode("lower new")->ids, ElementsAre(0, 1, 2, 4));
}

// "hé 文", as GPT-2 and as icefall write its bytes.
TEST(MarkedCodecTest, CharactersMayStandForBytes) {
  const auto gpt = Marked(v1::SUBWORD_MARK_BYTES, "h\nÃ©\nĠ\næ\nĸĩ\nĠhi\n");
  EXPECT_EQ(gpt->Decode({0, 1, 2, 3, 4}), "hé 文");
  EXPECT_THAT(gpt->Encode("hé 文")->ids, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(gpt->Decode({5, 5}), "hi hi");
  EXPECT_THAT(gpt->Encode("hi hi")->ids, ElementsAre(5, 5));
  EXPECT_EQ(gpt->Decode({0, 3}), "h\xEF\xBF\xBD");
  const auto both = Marked(v1::SUBWORD_MARK_BYTES, "hi\nĠhi\nĠ\nĊ\n");
  EXPECT_THAT(both->Encode("hi hi")->ids, ElementsAre(0, 1));
  EXPECT_THAT(both->Encode("hi\nhi  hi")->ids, ElementsAre(0, 3, 0, 2, 1));
  EXPECT_EQ(both->Decode(both->Encode(" hi")->ids), " hi");
  const auto icefall = Marked(v1::SUBWORD_MARK_ICEFALL_BYTES, "▁h\nũŏ\n▁\nƍ\nĹ\nĨ\n");
  EXPECT_EQ(icefall->Decode({0, 2, 3, 4, 5}), "h 文");
  EXPECT_THAT(icefall->Encode("h 文")->ids, ElementsAre(0, 2, 3, 4, 5));
  EXPECT_EQ(icefall->Decode({0, 1}), "hé");
}

TEST(MarkedCodecTest, PiecesOfBytesAreJoined) {
  std::string vocabulary = "▁a\n文\n";
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    absl::StrAppend(&vocabulary, "<0x", std::string(1, kDigits[byte / 16]),
                    std::string(1, kDigits[byte % 16]), ">\n");
  }
  const auto codec = Marked(v1::SUBWORD_MARK_WORD_BEGIN, vocabulary);
  const int first = 2;
  EXPECT_EQ(codec->Decode({0, first + 0xE5, first + 0xB1, first + 0xB1}), "a山");
  EXPECT_THAT(codec->Encode("a山")->ids, ElementsAre(0, first + 0xE5, first + 0xB1, first + 0xB1));
  EXPECT_THAT(codec->Encode("a文")->ids, ElementsAre(0, 1));
}

// The tokens that the text of `ids` is read as: they write the same text, or the test fails.
std::vector<int32_t> ReadAgain(const TextCodec& codec, const std::vector<int32_t>& ids,
                               const std::string& vocabulary) {
  const std::string text = codec.Decode(ids);
  if (text.empty()) {
    return {};
  }
  const absl::StatusOr<std::vector<int32_t>> again = codec.EncodePart(text);
  if (!again.ok()) {
    ADD_FAILURE() << again.status() << " of '" << text << "' with\n" << vocabulary;
    return {};
  }
  EXPECT_EQ(codec.Decode(*again), text) << vocabulary;
  return *again;
}

// The text of an answer, read as a target, is tokens that write the same text.
TEST(MarkedCodecTest, WhateverIsWrittenIsRead) {
  const std::vector<std::string> parts = {"a", "b", "é", "旗", "山", "ก", "x"};
  std::mt19937 random(8);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 2000; ++round) {
    const v1::SubwordMark mark =
        std::vector<v1::SubwordMark>{v1::SUBWORD_MARK_CONTINUATION, v1::SUBWORD_MARK_UNFINISHED,
                                     v1::SUBWORD_MARK_WORD_END, v1::SUBWORD_MARK_BYTES}[below(4)];
    std::string vocabulary;
    const size_t size = 1 + below(8);
    for (size_t token = 0; token < size; ++token) {
      const bool marked = below(2) == 0;
      std::string text;
      for (size_t part = 0; part <= below(3); ++part) {
        text += mark == v1::SUBWORD_MARK_BYTES ? std::string(1, static_cast<char>('a' + below(3)))
                                               : parts[below(parts.size())];
      }
      absl::StrAppend(&vocabulary,
                      !marked                                 ? ""
                      : mark == v1::SUBWORD_MARK_CONTINUATION ? "##"
                      : mark == v1::SUBWORD_MARK_BYTES        ? "Ġ"
                                                              : "",
                      text,
                      !marked                               ? ""
                      : mark == v1::SUBWORD_MARK_UNFINISHED ? "@@"
                      : mark == v1::SUBWORD_MARK_WORD_END   ? "</w>"
                                                            : "",
                      "\n");
    }
    const auto codec = Marked(mark, vocabulary);
    std::vector<int32_t> ids;
    for (size_t i = 0; i <= below(6); ++i) {
      ids.push_back(static_cast<int32_t>(below(size)));
    }
    ReadAgain(*codec, ids, vocabulary);
  }
}

// OpenNMT's joiner: no space stands next to it.
TEST(JoinerCodecTest, ASpaceStandsWhereNoTokenJoins) {
  const auto codec =
      Marked(v1::SUBWORD_MARK_WORD_BEGIN, "<unk>\nlow\n￭er\n(￭\n￭)\n￭-￭\n￭\nlo\n￭w\n", "<unk>");
  EXPECT_EQ(codec->Decode({1, 2, 3, 1, 4, 1, 5, 1}), "lower (low) low-low");
  EXPECT_THAT(codec->Encode("lower (low) low-low")->ids, ElementsAre(1, 2, 3, 1, 4, 1, 5, 1));
  // A joiner alone joins as well, and nothing is written for one at an end.
  EXPECT_EQ(codec->Decode({1, 6, 1, 6}), "lowlow");
  EXPECT_EQ(codec->Decode({2, 3}), "er (");
  EXPECT_EQ(codec->Decode(*codec->EncodePart("er (")), "er (");
  const auto text = codec->Encode("low x)");
  EXPECT_THAT(text->ids, ElementsAre(1, 0, 4));
  EXPECT_THAT(text->unknown_positions, ElementsAre(1));
  EXPECT_FALSE(Marked(v1::SUBWORD_MARK_WORD_BEGIN, "￭a\nb￭\n")->Encode("aba c").ok());
  ExpectWrittenInARow(*codec);
}

// The text of an answer, read as a target, is tokens that write the same text.
TEST(JoinerCodecTest, WhateverIsWrittenIsRead) {
  const std::vector<std::string> parts = {"a", "b", "é", "旗", "-", "aa"};
  std::mt19937 random(9);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 3000; ++round) {
    std::string vocabulary = "￭x\ny￭\n";
    const size_t size = 3 + below(8);
    for (size_t token = 2; token < size; ++token) {
      std::string text;
      for (size_t part = 0; part <= below(2); ++part) {
        text += parts[below(parts.size())];
      }
      absl::StrAppend(&vocabulary, below(3) == 0 ? "￭" : "", below(9) == 0 ? "" : text,
                      below(3) == 0 ? "￭" : "", "\n");
    }
    const auto codec = Marked(v1::SUBWORD_MARK_WORD_BEGIN, vocabulary);
    std::vector<int32_t> ids;
    for (size_t i = 0; i <= below(6); ++i) {
      ids.push_back(static_cast<int32_t>(below(size)));
    }
    const std::vector<int32_t> again = ReadAgain(*codec, ids, vocabulary);
    ASSERT_LE(again.size(), ids.size());
  }
}

}  // namespace
}  // namespace beamwright::bundle
