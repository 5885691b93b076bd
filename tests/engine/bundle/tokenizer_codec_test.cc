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
#include "tests/engine/bundle/written.h"

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

// Texts with the ids of the original.
std::vector<std::pair<std::string, std::vector<int32_t>>> Goldens(const std::string& name) {
  std::vector<std::pair<std::string, std::vector<int32_t>>> goldens;
  const std::string all = Content(absl::StrCat(name, ".tsv"));
  for (const absl::string_view line : absl::StrSplit(all, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> both = absl::StrSplit(line, '\t');
    auto& [text, ids] = goldens.emplace_back();
    EXPECT_TRUE(absl::CUnescape(both.first, &text));
    for (const absl::string_view id : absl::StrSplit(both.second, ' ', absl::SkipEmpty())) {
      EXPECT_TRUE(absl::SimpleAtoi(id, &ids.emplace_back()));
    }
  }
  return goldens;
}

class TokenizersTest : public testing::TestWithParam<const char*> {};

TEST_P(TokenizersTest, IdsAreThoseOfTheOriginal) {
  const auto codec = Tokenizer(Content(absl::StrCat(GetParam(), ".json")));
  ASSERT_TRUE(codec.ok()) << codec.status();
  int compared = 0;
  for (const auto& [text, ids] : Goldens(GetParam())) {
    const auto encoded = (*codec)->EncodePart(text);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(*encoded, ids) << text;
    EXPECT_EQ((*codec)->Decode(ids), text);
    ++compared;
  }
  EXPECT_GT(compared, 60);
  ExpectWrittenInARow(**codec);
  ExpectReadAgain(**codec);
}

INSTANTIATE_TEST_SUITE_P(Patterns, TokenizersTest, testing::Values("gpt2", "llama3", "qwen"));

class PieceTokenizersTest : public testing::TestWithParam<const char*> {};

TEST_P(PieceTokenizersTest, IdsAreThoseOfTheOriginal) {
  const auto codec = Tokenizer(Content(absl::StrCat(GetParam(), ".json")), "");
  ASSERT_TRUE(codec.ok()) << codec.status();
  int compared = 0;
  int unknown = 0;
  for (const auto& [text, ids] : Goldens(GetParam())) {
    const auto encoded = (*codec)->Encode(text);
    if (ids.empty()) {
      EXPECT_EQ(encoded.status().code(), absl::StatusCode::kInvalidArgument) << text;
      continue;
    }
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(encoded->ids, ids) << text;
    unknown += encoded->unknown_positions.empty() ? 0 : 1;
    ++compared;
  }
  EXPECT_GT(compared, 60);
  EXPECT_EQ(unknown > 20, std::string(GetParam()) != "xlmr");  // which spells bytes
  ExpectWrittenInARow(**codec);
  ExpectReadAgain(**codec);
}

INSTANTIATE_TEST_SUITE_P(Models, PieceTokenizersTest,
                         testing::Values("t5", "xlmr", "bert", "cased"));

TEST(PieceTokenizerTest, TextOfTokensComesBack) {
  const auto bert = Tokenizer(Content("bert.json"), "[SEP]");
  ASSERT_TRUE(bert.ok()) << bert.status();
  const auto words = (*bert)->EncodePart("The OF and");
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ((*bert)->Decode(*words), "the of and");
  EXPECT_THAT(std::string((*bert)->EncodePart("the \xE4\xB8\xAD").status().message()),
              HasSubstr("not in the vocabulary"));
  // No text spells the end token, other added tokens are read.
  EXPECT_GT((*bert)->EncodePart("[SEP]")->size(), 1u);
  EXPECT_THAT(*(*bert)->EncodePart("[MASK]"), ElementsAre((*bert)->TokenId("[MASK]")));
  const auto t5 = Tokenizer(Content("t5.json"), "</s>");
  ASSERT_TRUE(t5.ok()) << t5.status();
  EXPECT_EQ((*t5)->Decode(*(*t5)->EncodePart(" the  of")), "the of");
}

TEST(PieceTokenizerTest, WhatIsNotReadIsRefused) {
  const auto refused = [&](const char* file, const char* from, const char* to) {
    const std::string content = absl::StrReplaceAll(Content(file), {{from, to}});
    return std::string(Tokenizer(content, "").status().message());
  };
  EXPECT_THAT(refused("t5.json", "\"type\":\"Precompiled\"", "\"type\":\"NFKC\""),
              HasSubstr("normalizer: 'NFKC' is not read"));
  EXPECT_THAT(refused("t5.json", "charsmap\":\"", "charsmap\":\"!"), HasSubstr("no charsmap"));
  EXPECT_THAT(refused("t5.json", "\"type\":\"WhitespaceSplit\"", "\"type\":\"Punctuation\""),
              HasSubstr("pre_tokenizer: 'Punctuation' is not read"));
  EXPECT_THAT(refused("t5.json", "\"unk_id\":2", "\"unk_id\":2000"), HasSubstr("model.unk_id"));
  EXPECT_THAT(refused("bert.json", "\"[MASK]\":4", "\"[MASK]\":-4"), HasSubstr("no usable id"));
  EXPECT_THAT(refused("bert.json", "\"vocab\":{", "\"vocab\":{\"x\":\"y\","),
              HasSubstr("model.vocab: 'x'"));
}

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
  EXPECT_THAT(refused("\"type\":\"BPE\"", "\"type\":\"WordLevel\""), HasSubstr("'WordLevel'"));
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

TEST(TokenizerCodecTest, SpecialTokensAndATokenWithoutTextAreNotWritten) {
  const auto codec = Tokenizer(
      R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"":2},"merges":[]},
      "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"added_tokens":[
      {"id":3,"content":"<|end|>","special":true},{"id":4,"content":"<|en|>","special":true},
      {"id":5,"content":"<|0.00|>","special":false}]})");
  ASSERT_TRUE(codec.ok()) << codec.status();
  EXPECT_EQ((*codec)->size(), 6);
  EXPECT_EQ((*codec)->Decode({4, 0, 5, 1, 3}), "a<|0.00|>b");
  EXPECT_THAT(*(*codec)->EncodePart("<|en|>ab"), ElementsAre(4, 0, 1));
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
