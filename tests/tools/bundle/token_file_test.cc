#include "tools/bundle/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/bundle/token_file.h"

namespace beamwright::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<std::string>> Read(const std::string& content) {
  std::vector<std::string> reasons;
  const absl::StatusOr<TokenFile> file = ReadTokenFile("tokens.txt", content, reasons);
  return file.ok() ? absl::StatusOr<std::vector<std::string>>(file->tokens) : file.status();
}

TEST(TokenFile, NumberedLinesInAnyOrder) {
  EXPECT_THAT(*Read("<blk> 0\nb 2\na 1\n"), ElementsAre("<blk>", "a", "b"));
  EXPECT_THAT(*Read("<blk>\t0\r\n 1\r\na b 2\r\n"), ElementsAre("<blk>", " ", "a b"));
}

TEST(TokenFile, JsonIsIdsByToken) {
  EXPECT_THAT(*Read("{\"<pad>\": 0, \"|\": 2, \"a\": 1}"), ElementsAre("<pad>", "a", "|"));
}

TEST(TokenFile, PlainLinesAreTokens) {
  EXPECT_THAT(*Read("0\n1\n2\n"), ElementsAre("0", "1", "2"));  // digits, not ids
  EXPECT_THAT(*Read("a\n \nb"), ElementsAre("a", " ", "b"));
}

// As dictionaries of OCR models have them.
TEST(TokenFile, EmptyLinesAreTokensWithoutAText) {
  EXPECT_THAT(*Read("a\n\nb\n"), ElementsAre("a", "", "b"));
  std::vector<std::string> reasons;
  const absl::StatusOr<TokenFile> file = ReadTokenFile("tokens.txt", "a\n\nb\n\n\n", reasons);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->tokens, ElementsAre("a", "", "b"));
  EXPECT_EQ(file->empty_tail, 2);
}

TEST(TokenFile, AByteOrderMarkAndWindowsLineEndsAreLeftOut) {
  EXPECT_THAT(*Read("\xEF\xBB\xBF"
                    "a\r\n \r\nb\r\n"),
              ElementsAre("a", " ", "b"));
  EXPECT_THAT(*Read("\xEF\xBB\xBF<blk> 0\r\na 1\r\n"), ElementsAre("<blk>", "a"));
  EXPECT_THAT(*Read("\xEF\xBB\xBF{\"a\": 0}"), ElementsAre("a"));
}

TEST(TokenFile, TokensMayShareAText) {
  EXPECT_THAT(*Read("a\n \na\n \n"), ElementsAre("a", " ", "a", " "));
}

TEST(TokenFile, FaultsAreNamed) {
  const auto message = [](const std::string& content) {
    return std::string(Read(content).status().message());
  };
  EXPECT_EQ(message(""), "vocabulary 'tokens.txt': it is empty");
  EXPECT_EQ(message("a 0\nb 0\n"), "vocabulary 'tokens.txt': 'a' and 'b' both have the id 0");
  EXPECT_EQ(message("a 0\nb 2\n"),
            "vocabulary 'tokens.txt': no token has the id 1; ids count from 0");
  EXPECT_THAT(message("{\"a\": 0"), HasSubstr("is not a JSON object"));
  EXPECT_THAT(message("{\"a\": \"0\"}"), HasSubstr("'a' has no id"));
  EXPECT_THAT(message("{\"a\": 0.5}"), HasSubstr("'a' has no id"));
  EXPECT_THAT(message("{\"a\": 1e300}"), HasSubstr("'a' has no id"));
}

TEST(SubwordMark, JoinersOfOpenNmtAreRecognised) {
  std::vector<std::string> reasons;
  const auto mark = FindSubwordMark("target", {"<unk>", "low", "￭er", "(￭"}, reasons);
  ASSERT_TRUE(mark.has_value());
  EXPECT_EQ(*mark, v1::SUBWORD_MARK_WORD_BEGIN);  // the vocabulary says the rest
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("2 tokens have OpenNMT's joiner '￭'")));
  // Next to SentencePiece's mark it is a character.
  reasons.clear();
  EXPECT_TRUE(FindSubwordMark("target", {"▁low", "￭er", "(￭"}, reasons).has_value());
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("'▁', which begins a word")));
}

}  // namespace
}  // namespace beamwright::tools
