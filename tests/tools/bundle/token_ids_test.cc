// OPUS-MT's vocabularies: the ids of a file of both sides in SentencePiece models of one side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/bundle/text_codec.h"
#include "tools/bundle/marian_files.h"

namespace beamwright::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TokenIdsFault(const std::string& content) {
  return std::string(ReadTokenIds(content).status().message());
}

// A SentencePiece model of these pieces, which are equally probable. type: 1 for usual ones.
std::string PieceModelOf(const std::vector<std::pair<std::string, char>>& pieces) {
  std::string model;
  for (const auto& [text, type] : pieces) {
    std::string piece = absl::StrCat("\n", std::string(1, static_cast<char>(text.size())), text);
    piece += std::string("\x15\0\0\x80\xbf", 5);  // a score of -1
    piece += std::string("\x18", 1) + type;
    absl::StrAppend(&model, "\n", std::string(1, static_cast<char>(piece.size())), piece);
  }
  return model;
}

TEST(TokenIdsTest, FilesOfMarianAreRead) {
  EXPECT_THAT(*ReadTokenIds("</s>: 0\n<unk>: 1\n\",\": 2\n'''': 4\n\":\": 3\n"
                            "\"\\x41\\u2581\": 5\n"),
              ElementsAre("</s>", "<unk>", ",", ":", "'", "A\xe2\x96\x81"));
  EXPECT_THAT(*ReadTokenIds("{\"</s>\": 0,\n \"a\": 1\n}\n"), ElementsAre("</s>", "a"));
  EXPECT_THAT(TokenIdsFault("a: 0\nb: 0\n"), HasSubstr("line 2: id 0 is there twice"));
  EXPECT_THAT(TokenIdsFault("a: 0\nb: 2\n"), HasSubstr("id 1 is missing"));
  EXPECT_THAT(TokenIdsFault("a: 0\nb\n"), HasSubstr("line 2 is not 'token: id'"));
  EXPECT_THAT(TokenIdsFault("a: 99999999999\n"), HasSubstr("line 1"));
  EXPECT_THAT(TokenIdsFault("\"a: 0\n"), HasSubstr("line 1 has no token"));
}

TEST(TokenIdsTest, TextIsCutByTheSideAndNumberedByTheFile) {
  const std::string model = PieceModelOf({{"<unk>", 2},
                                          {"<s>", 3},
                                          {"</s>", 3},
                                          {"\xe2\x96\x81"
                                           "a",
                                           1},
                                          {"\xe2\x96\x81"
                                           "b",
                                           1},
                                          {"c", 1},
                                          {"ac", 1}});
  const std::vector<std::string> tokens = {"</s>",
                                           "<unk>",
                                           "\xe2\x96\x81"
                                           "b",
                                           "x",
                                           "c",
                                           ">>fra<<",
                                           "\xe2\x96\x81"
                                           "a"};
  const auto numbered = NumberPieces(model, tokens);
  ASSERT_TRUE(numbered.ok()) << numbered.status();
  v1::TextConfig config;
  config.set_form(v1::TEXT_FORM_SENTENCEPIECE);
  config.set_vocabulary("v");
  config.set_unknown_token("<unk>");
  const auto codec = bundle::TextCodec::Create(config, *numbered);
  if (absl::StrContains(codec.status().message(), "a sanitizer build cannot load")) {
    GTEST_SKIP() << codec.status();
  }
  ASSERT_TRUE(codec.ok()) << codec.status();
  EXPECT_EQ((*codec)->size(), 7);
  EXPECT_THAT((*codec)->Encode("bc a")->ids, ElementsAre(2, 4, 6));
  EXPECT_THAT((*codec)->Encode(">>fra<< a")->ids, ElementsAre(5, 6));
  EXPECT_THAT((*codec)->Encode("bx")->ids, ElementsAre(2, 1));  // of the other side
  EXPECT_EQ((*codec)->Decode({6, 3, 2}), "ax b");
  EXPECT_THAT(NumberPieces(model, {"</s>", "y"}).status().message(), HasSubstr("no piece"));
  for (size_t size = 0; size < model.size(); ++size) {
    static_cast<void>(NumberPieces(model.substr(0, size), tokens));
  }
  EXPECT_THAT(NumberPieces("text", tokens).status().message(), HasSubstr("is not a Sentence"));
}

}  // namespace
}  // namespace beamwright::tools
