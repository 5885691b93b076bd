#include "server/translate/sentences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "ops/base/utf8.h"

namespace beamwright::translate {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Words between ASCII spaces.
int CountWords(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  return static_cast<int>(words.size());
}

int CountCharacters(absl::string_view text) {
  int count = 0;
  for (const char c : text) {
    count += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  }
  return count;
}

std::vector<Piece> Split(const std::string& language, absl::string_view text, int max_tokens = 1000,
                         CountTokens count = CountWords) {
  return (*SentenceSplitter::Create(language))->Split(text, max_tokens, count);
}

std::vector<std::string> Sentences(const std::string& language, absl::string_view text,
                                   int max_tokens = 1000, CountTokens count = CountWords) {
  std::vector<std::string> sentences;
  for (const Piece& piece : Split(language, text, max_tokens, count)) {
    if (piece.is_sentence) {
      sentences.emplace_back(piece.text);
    }
  }
  return sentences;
}

std::string Joined(absl::Span<const Piece> pieces) {
  std::string text;
  for (const Piece& piece : pieces) {
    text += std::string(piece.text);
  }
  return text;
}

TEST(SentencesTest, EndAtStopsAndNotAfterAbbreviations) {
  EXPECT_THAT(Sentences("en",
                        "Mr. Smith met Dr. No in Washington, D.C. yesterday. \"Go!\" he said. "
                        "It cost 3.5 dollars, e.g. Fig. 3 shows it. Why? What?!"),
              ElementsAre("Mr. Smith met Dr. No in Washington, D.C. yesterday.", "\"Go!\" he said.",
                          "It cost 3.5 dollars, e.g. Fig. 3 shows it.", "Why?", "What?!"));
  EXPECT_THAT(Sentences("de", "Herr Prof. Meier kam z.B. gestern. Dr. Huber nicht."),
              ElementsAre("Herr Prof. Meier kam z.B. gestern.", "Dr. Huber nicht."));
  EXPECT_THAT(Sentences("fr", "M. Dupont est là. Où ?"), ElementsAre("M. Dupont est là.", "Où ?"));
  // Only whole words are abbreviations ("ex.", "r.").
  EXPECT_THAT(Sentences("fr", "C'est complex. Il va (p. ex.) bien."),
              ElementsAre("C'est complex.", "Il va (p. ex.) bien."));
  EXPECT_THAT(Sentences("pl", "Jest dar. On był."), ElementsAre("Jest dar.", "On był."));
  EXPECT_THAT(Sentences("en", "J. R. R. Tolkien wrote it. \"Why?\" \"No.\" So be it."),
              ElementsAre("J. R. R. Tolkien wrote it.", "\"Why?\"", "\"No.\"", "So be it."));
  // A language that ICU does not know, and no language.
  EXPECT_THAT(Sentences("xx", "One. Two."), ElementsAre("One.", "Two."));
  EXPECT_THAT(Sentences("", "One. Two."), ElementsAre("One.", "Two."));
}

TEST(SentencesTest, ScriptsWithoutSpaces) {
  EXPECT_THAT(Sentences("ja", "今日は。元気ですか？はい！"),
              ElementsAre("今日は。", "元気ですか？", "はい！"));
  EXPECT_THAT(Sentences("zh-Hans", "你好。　再见！"), ElementsAre("你好。", "再见！"));
  EXPECT_THAT(Sentences("hi", "यह है। वह भी।"), ElementsAre("यह है।", "वह भी।"));
}

TEST(SentencesTest, LinesAndColumnsAreApart) {
  const std::string text = "  a title\r\n\r\n- one\tsecond column\n---\n12.5\n\xc2\xa0wide ";
  EXPECT_THAT(Sentences("en", text), ElementsAre("a title", "- one", "second column", "wide"));
  EXPECT_EQ(Joined(Split("en", text)), text);
  EXPECT_THAT(Sentences("en", " \n\t... 12 \n"), IsEmpty());
  EXPECT_THAT(Split("en", ""), IsEmpty());
}

TEST(SentencesTest, LongSentencesAreCutAtClausesAndWords) {
  EXPECT_THAT(Sentences("en", "a b c d, e f g h i j", 6), ElementsAre("a b c d,", "e f g h i j"));
  // A clause that ends early would leave a part too short.
  EXPECT_THAT(Sentences("en", "a, b c d e f g h", 6), ElementsAre("a, b c d e f", "g h"));
  EXPECT_THAT(Sentences("ja", "あいうえおかきくけこ", 4, CountCharacters),
              ElementsAre("あいうえ", "おかきく", "けこ"));
  // A word that is too long by itself; marks stay with their letter.
  EXPECT_THAT(Sentences("en", "abcdefghij", 3, CountCharacters),
              ElementsAre("ab", "cde", "fg", "hij"));
  EXPECT_THAT(Sentences("en", "ae\xcc\x81\xcc\x81z", 2, CountCharacters),
              ElementsAre("a", "e\xcc\x81\xcc\x81", "z"));
}

TEST(SentencesTest, TranslationsTakeThePlacesOfSentences) {
  const std::vector<Piece> pieces = Split("zh", "一。二！\n\n三");
  EXPECT_EQ(JoinPieces(pieces, {"One.", "Two!", "Three"}, true), "One. Two!\n\nThree");
  EXPECT_EQ(JoinPieces(pieces, {"一", "二", "三"}, false), "一二\n\n三");
  EXPECT_TRUE(SeparatesWords("pt-BR"));
  EXPECT_FALSE(SeparatesWords("ZH-hans"));
  EXPECT_EQ(LanguageName("fr"), "French");
  EXPECT_EQ(LanguageName("zh-Hant"), "Chinese (Traditional)");
}

// Whatever the text: nothing is lost, no sentence is too long, none has outer white space or a line
// end, and what is kept has no letter.
TEST(SentencesTest, RandomTextsStayWhole) {
  const std::vector<std::string> fragments = {"word",
                                              "Word",
                                              "a",
                                              "Mr.",
                                              "e.g.",
                                              "U.S.",
                                              "3.14",
                                              ".",
                                              "!",
                                              "?",
                                              "...",
                                              ",",
                                              ";",
                                              ":",
                                              "\"",
                                              "(",
                                              ")",
                                              " ",
                                              "  ",
                                              "\n",
                                              "\r\n",
                                              "\r",
                                              "\t",
                                              "\xc2\xa0",
                                              "\xe2\x80\xa8",
                                              "\xe3\x80\x80",
                                              "\xef\xbb\xbf",
                                              "今日",
                                              "は",
                                              "。",
                                              "？",
                                              "、",
                                              "สวัสดี",
                                              "مرحبا",
                                              "؟",
                                              "é",
                                              "e\xcc\x81",
                                              "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac",
                                              "-",
                                              "<b>",
                                              "https://x.org/a?b=1",
                                              "ʻ",
                                              "averyveryverylongwordwithoutanend",
                                              "\x01",
                                              "ß",
                                              "İ"};
  const std::string separators[] = {"\n", "\r", "\t", "\v", "\f", "\xc2\x85", "\xe2\x80\xa8"};
  std::mt19937 random(7);
  int sentences = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (uint32_t k = random() % 60; k > 0; --k) {
      text += fragments[random() % fragments.size()];
    }
    const char* const languages[] = {"en", "de", "ja", "th", "ar", "xx"};
    const int most = 1 + static_cast<int>(random() % 12);
    const std::vector<Piece> pieces = Split(languages[random() % 6], text, most, CountCharacters);
    ASSERT_EQ(Joined(pieces), text);
    std::vector<std::string> same;
    for (const Piece& piece : pieces) {
      ASSERT_FALSE(piece.text.empty());
      ASSERT_TRUE(CheckUtf8(piece.text).ok()) << text;
      if (!piece.is_sentence) {
        EXPECT_FALSE(absl::StrContains(piece.text, 'a')) << text;
        continue;
      }
      same.emplace_back(piece.text);
      for (const std::string& separator : separators) {
        EXPECT_FALSE(absl::StrContains(piece.text, separator)) << text;
      }
      for (const char* space : {" ", "\xc2\xa0", "\xe3\x80\x80"}) {
        EXPECT_FALSE(absl::StartsWith(piece.text, space) || absl::EndsWith(piece.text, space))
            << text;
      }
      // A letter and its marks are one.
      EXPECT_LE(CountCharacters(piece.text), std::max(most, 2)) << piece.text;
      ++sentences;
    }
    EXPECT_EQ(JoinPieces(pieces, same, false), text);
  }
  EXPECT_GT(sentences, 10000);
}

}  // namespace
}  // namespace beamwright::translate
