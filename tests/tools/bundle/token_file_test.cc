#include "tools/bundle/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/bundle/text_codec.h"
#include "tests/tools/graph/shell.h"
#include "tools/bundle/init_parts.h"
#include "tools/bundle/text_side.h"

namespace beamwright::tools {
namespace {

using ops::testing_tools::TempPath;
using ops::testing_tools::WriteFile;
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

TEST(TokenFile, AJsonObjectOfIdsIsANumberedList) {
  EXPECT_TRUE(IsNumberedList("{\"<s>\": 1, \"a b\": 0}"));
  EXPECT_FALSE(IsNumberedList("{\"\\n\": 0, \"a\": 1}"));
  EXPECT_FALSE(IsNumberedList("{\"model\": {\"vocab\": {\"a\": 0}}}"));
  EXPECT_FALSE(IsNumberedList("{\n}\na\n"));
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

// OPUS-MT's vocabularies: the ids of a file of both sides in SentencePiece models of one side.

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
  EXPECT_THAT(*ReadTokenIds("{\"a\": 1, \"\\u2581\": 0}"), ElementsAre("\xe2\x96\x81", "a"));
  EXPECT_THAT(TokenIdsFault("{\"a\": 0, \"b\": 0}"), HasSubstr("0"));
  EXPECT_THAT(TokenIdsFault("{\"\": 0, \"b\": 1}"), HasSubstr("a token is empty"));
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

constexpr char kMark[] = "\xe2\x96\x81";

// Its bytes are no lines of text, whichever of its two usual names the file has.
TEST(ReadTextTest, ASentencePieceModelKeepsItsBytes) {
  const std::string model = PieceModelOf({{"<unk>", 2}, {"a\r\nb", 1}});
  for (const char* const name : {"bytes.spm", "bytes.model", "bytes.vocab"}) {
    const std::string path = TempPath(name);
    WriteFile(path, model);
    const auto content = ReadText(path, "");
    ASSERT_TRUE(content.ok()) << content.status();
    EXPECT_EQ(*content == model, !absl::EndsWith(path, ".vocab")) << path;
  }
}

// T5 has no <s>; its targets begin with <pad>.
TEST(ReadTextSideTest, SpecialPiecesAreThoseThatTheModelHas) {
  const auto read = [](const std::vector<std::pair<std::string, char>>& pieces,
                       const SpecialTokens& special) {
    std::vector<std::string> reasons;
    return ReadTextSide("target", "t5.spm", PieceModelOf(pieces), special, reasons);
  };
  const auto usual =
      read({{"<unk>", 2}, {"<s>", 3}, {"</s>", 3}, {"<pad>", 3}, {"a", 1}}, SpecialTokens());
  if (absl::StrContains(usual.status().message(), "a sanitizer build cannot load")) {
    GTEST_SKIP() << usual.status();
  }
  ASSERT_TRUE(usual.ok()) << usual.status();
  EXPECT_EQ(usual->config.begin_token(), "<s>");
  const auto padded = read({{"<unk>", 2}, {"</s>", 3}, {"<pad>", 3}, {"a", 1}}, SpecialTokens());
  ASSERT_TRUE(padded.ok()) << padded.status();
  EXPECT_EQ(padded->config.begin_token(), "<pad>");
  EXPECT_EQ(padded->config.unknown_token(), "<unk>");
  EXPECT_THAT(padded->config.end_tokens(), ElementsAre("</s>"));
  EXPECT_THAT(read({{"<unk>", 2}, {"</s>", 3}, {"a", 1}}, SpecialTokens()).status().message(),
              HasSubstr("name it by --begin"));
  SpecialTokens other;
  other.begin = "b";
  EXPECT_THAT(read({{"<unk>", 2}, {"</s>", 3}, {"a", 1}}, other).status().message(),
              HasSubstr("'b'"));
}

// A folder as optimum writes it of a model of OPUS-MT.
TEST(ExportSettingsTest, MarianOfTransformersNeedsNoFlags) {
  const std::string model =
      PieceModelOf({{"<unk>", 2}, {"</s>", 3}, {absl::StrCat(kMark, "a"), 1}, {"b", 1}});
  WriteFile(TempPath("source.spm"), model);
  WriteFile(TempPath("target.spm"), model);
  WriteFile(TempPath("vocab.json"), absl::StrCat("{\"</s>\": 0, \"<unk>\": 1, \"b\": 2, \"", kMark,
                                                 "a\": 3, \"<pad>\": 4}"));
  WriteFile(TempPath("config.json"), R"({"is_encoder_decoder": true, "model_type": "marian"})");
  WriteFile(TempPath("generation_config.json"),
            R"({"decoder_start_token_id": 4, "eos_token_id": 0, "bad_words_ids": [[4]],
                "num_beams": 6, "max_length": 512})");
  InitOptions options;
  options.encoder = TempPath("encoder_model.onnx");
  const auto settings = TakeExportSettings(options);
  if (absl::StrContains(settings.status().message(), "a sanitizer build cannot load")) {
    GTEST_SKIP() << settings.status();
  }
  ASSERT_TRUE(settings.ok()) << settings.status();
  ASSERT_TRUE(settings->has_value());
  EXPECT_EQ(options.source_vocab, TempPath("source.spm"));
  EXPECT_EQ(options.token_ids, TempPath("vocab.json"));
  EXPECT_EQ(options.special.begin, "<pad>");
  EXPECT_THAT(options.special.ends, ElementsAre("</s>"));
  EXPECT_EQ(options.special.source_end, "</s>");
  EXPECT_EQ((*settings)->options.beam_size(), 6);
  EXPECT_EQ((*settings)->options.max_length(), 511);
  EXPECT_THAT((*settings)->options.suppress_tokens().ids().ids(), ElementsAre(4));

  WriteFile(TempPath("config.json"), R"({"model_type": "marian"})");
  InitOptions untouched;
  untouched.encoder = options.encoder;
  EXPECT_FALSE(TakeExportSettings(untouched)->has_value());
  EXPECT_EQ(untouched.source_vocab, "");
}

}  // namespace

}  // namespace beamwright::tools
