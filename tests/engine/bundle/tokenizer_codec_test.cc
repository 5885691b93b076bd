// Files that say how text is cut: ids equal those of the package `tokenizers`
// (data/make_tokenizers.py), text comes back as it was, and what is not read is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/bundle/split_pattern.h"
#include "engine/bundle/text_codec.h"

namespace beamwright::bundle {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Content(const std::string& file) {
  std::ifstream in(absl::StrCat(BEAMWRIGHT_SOURCE_DIR, "/tests/engine/bundle/data/", file),
                   std::ios::binary);
  std::stringstream content;
  content << in.rdbuf();
  return content.str();
}

absl::StatusOr<std::unique_ptr<TextCodec>> Tokenizer(const std::string& content,
                                                     const std::string& end = "<|end|>") {
  v1::TextConfig config;
  config.set_form(v1::TEXT_FORM_PIECES);
  config.set_vocabulary("tokenizer.json");
  if (!end.empty()) {
    config.set_begin_token(end);
    config.add_end_tokens(end);
  }
  return TextCodec::Create(config, content);
}

class TokenizersTest : public testing::TestWithParam<const char*> {};

TEST_P(TokenizersTest, IdsAreThoseOfTheOriginal) {
  const auto codec = Tokenizer(Content(absl::StrCat(GetParam(), ".json")));
  ASSERT_TRUE(codec.ok()) << codec.status();
  int compared = 0;
  const std::string all = Content(absl::StrCat(GetParam(), ".tsv"));
  for (const absl::string_view line : absl::StrSplit(all, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> both = absl::StrSplit(line, '\t');
    std::string text;
    ASSERT_TRUE(absl::CUnescape(both.first, &text));
    std::vector<int32_t> ids;
    for (const absl::string_view id : absl::StrSplit(both.second, ' ', absl::SkipEmpty())) {
      ASSERT_TRUE(absl::SimpleAtoi(id, &ids.emplace_back()));
    }
    const auto encoded = (*codec)->EncodePart(text);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(*encoded, ids) << both.first;
    EXPECT_EQ((*codec)->Decode(ids), text);
    ++compared;
  }
  EXPECT_GT(compared, 60);
}

INSTANTIATE_TEST_SUITE_P(Patterns, TokenizersTest, testing::Values("gpt2", "llama3", "qwen"));

TEST(TokenizerCodecTest, BeginAndEndAreNoText) {
  const auto codec = Tokenizer(Content("gpt2.json"));
  ASSERT_TRUE(codec.ok()) << codec.status();
  const auto encoded = (*codec)->Encode("<|end|>");
  ASSERT_TRUE(encoded.ok());
  EXPECT_EQ(encoded->ids.front(), 0);
  EXPECT_EQ(encoded->ids.back(), 0);
  EXPECT_GT(encoded->ids.size(), 3u) << "spelled, not taken for the token";
  EXPECT_EQ((*codec)->Decode(encoded->ids), "<|end|>");
}

TEST(TokenizerCodecTest, HalfACharacterIsReplaced) {
  const auto codec = Tokenizer(Content("gpt2.json"));
  ASSERT_TRUE(codec.ok());
  const auto ids = (*codec)->EncodePart("\xF0\x9F\x98\xB9");
  ASSERT_TRUE(ids.ok());
  ASSERT_GT(ids->size(), 1u);
  EXPECT_THAT((*codec)->Decode({ids->data(), 1}), HasSubstr("\xEF\xBF\xBD"));
}

TEST(TokenizerCodecTest, LongWordsTakeNoSquareOfTheirLength) {
  const auto codec = Tokenizer(Content("gpt2.json"));
  ASSERT_TRUE(codec.ok());
  const std::string text(1 << 20, 'a');
  const auto ids = (*codec)->EncodePart(text);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ((*codec)->Decode(*ids), text);
}

TEST(TokenizerCodecTest, WhatIsNotReadIsRefused) {
  const std::string content = Content("gpt2.json");
  const auto refused = [&](const char* from, const char* to) {
    return std::string(Tokenizer(absl::StrReplaceAll(content, {{from, to}})).status().message());
  };
  EXPECT_THAT(refused("\"type\":\"BPE\"", "\"type\":\"Unigram\""), HasSubstr("'Unigram'"));
  EXPECT_THAT(refused("\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}"),
              HasSubstr("normalizer: 'NFKC'"));
  EXPECT_THAT(refused("\"pre_tokenizer\":{\"type\":\"ByteLevel\"",
                      "\"pre_tokenizer\":{\"type\":\"Metaspace\""),
              HasSubstr("pre_tokenizer: 'Metaspace'"));
  EXPECT_THAT(refused("\"dropout\":null", "\"dropout\":0.1"), HasSubstr("model.dropout"));
  EXPECT_THAT(refused("\"merges\":[", "\"merges\":[[\"never\",\"seen\"],"),
              HasSubstr("model.merges[0]: 'never'"));
  EXPECT_THAT(refused("\"id\":421", "\"id\":2000000000"), HasSubstr("no usable id"));
  EXPECT_THAT(refused("\"version\"", "\"version"), HasSubstr("is not JSON"));
  EXPECT_THAT(std::string(Tokenizer(content, "<s>").status().message()), HasSubstr("'<s>'"));
}

TEST(TokenizerCodecTest, RwkvTakesTheLongestToken) {
  const auto codec = Tokenizer(
      "1 '\\x00' 1\n2 'a' 1\n3 'ab' 2\n4 b'\\xe4' 1\n5 b'\\xb8\\xad' 2\n6 \"it's\" 4\n7 '\\n\\\\' "
      "2\n8 '中b' 4\n10 ' ' 1\n",
      "<|endoftext|>");
  ASSERT_TRUE(codec.ok()) << codec.status();
  EXPECT_EQ((*codec)->size(), 11);
  EXPECT_THAT(*(*codec)->EncodePart("aaba中中bit's\n\\ "), ElementsAre(2, 3, 2, 4, 5, 8, 6, 7, 10));
  EXPECT_EQ((*codec)->Decode({2, 3, 2, 4, 5, 8, 6, 7, 10, 0}), "aaba中中bit's\n\\ ");
  EXPECT_THAT(std::string((*codec)->EncodePart("x").status().message()), HasSubstr("'x'"));
  EXPECT_THAT(std::string(Tokenizer("1 '\\x00' 1\n2 'a' 2\n", "<|endoftext|>").status().message()),
              HasSubstr("line 2"));
}

TEST(SplitPatternTest, WhatIsNotInTheSubsetIsRefused) {
  for (const char* const pattern : {"a|", "(a|b)c", "(a", "a++", "a*?", "\\p{Lu}", "\\d", "[a",
                                    "[a&&b]", "a{2,1}", "(?=a)", ".", "a*", "^a", "\\"}) {
    EXPECT_FALSE(SplitPattern::Parse(pattern).ok()) << pattern;
  }
}

TEST(SplitPatternTest, PiecesAreMatchesAndWhatLiesBetween) {
  const auto pattern = SplitPattern::Parse("[a-c]{2}|[^\\S\\n]+(?!\\S)|(?:x|y)");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  EXPECT_THAT(pattern->Split("abc--cax  z\n"), ElementsAre("ab", "c--", "ca", "x", " ", " z\n"));
  EXPECT_TRUE(pattern->Split("").empty());
}

TEST(SplitPatternTest, AnEndlessSearchIsGivenUp) {
  const auto pattern = SplitPattern::Parse("b|a+a+a+a+c");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  const std::string text = absl::StrCat("b", std::string(100000, 'a'));
  EXPECT_THAT(pattern->Split(text), ElementsAre("b", text.substr(1)));
}

}  // namespace
}  // namespace beamwright::bundle
