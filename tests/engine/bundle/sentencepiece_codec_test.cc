// data/tiny.model was made by SentencePiece's own trainer (spm_train --vocab_size=40
// --hard_vocab_limit=false --model_type=unigram --normalization_rule_name=identity) from the six
// lines
//   a beam of light / the beam search keeps the best / search the light / best of all
//   light beams keep searching / all the best beams
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/bundle/text_codec.h"
#include "ops/base/file.h"
#include "tests/engine/bundle/written.h"

namespace beamwright::bundle {
namespace {

using ::testing::HasSubstr;

v1::TextConfig Config() {
  v1::TextConfig config;
  config.set_form(v1::TEXT_FORM_SENTENCEPIECE);
  config.set_vocabulary("text.model");
  config.add_end_tokens("</s>");
  config.set_unknown_token("<unk>");
  return config;
}

class SentencePieceCodecTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const absl::Status status = TextCodec::Create(Config(), Model()).status();
    sanitized_ = absl::IsUnavailable(status) &&
                 absl::StrContains(status.message(), "a sanitizer build cannot");
  }
  void SetUp() override {
    if (sanitized_) {
      GTEST_SKIP() << "the library cannot be loaded in a sanitizer build";
    }
  }
  static const std::string& Model() {
    static const auto* model = new std::string(
        *ReadFile(std::string(BEAMWRIGHT_SOURCE_DIR) + "/tests/engine/bundle/data/tiny.model"));
    return *model;
  }

  static bool sanitized_;
};

bool SentencePieceCodecTest::sanitized_ = false;

TEST_F(SentencePieceCodecTest, TokensWriteWhatDecodeWrites) {
  const auto codec = *TextCodec::Create(Config(), Model());
  ExpectWrittenInARow(*codec, /*drops_spaces=*/true);
  ExpectReadAgain(*codec);
}

TEST_F(SentencePieceCodecTest, RoundTripsTextOfKnownCharacters) {
  ASSERT_FALSE(Model().empty());
  const auto codec = *TextCodec::Create(Config(), Model());
  EXPECT_GT(codec->size(), 10);
  const std::vector<std::string> words = {"beam", "light", "search", "abs", "the", "keeps", "tomb"};
  std::mt19937 random(11);
  for (int run = 0; run < 100; ++run) {
    std::string text = words[random() % words.size()];
    for (size_t i = random() % 6; i > 0; --i) {
      text += " " + words[random() % words.size()];
    }
    const absl::StatusOr<EncodedText> encoded = codec->Encode(text);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(encoded->ids.back(), codec->end_ids()[0]);
    EXPECT_TRUE(encoded->unknown_positions.empty()) << text;
    EXPECT_EQ(codec->Decode(encoded->ids), text);
  }
}

TEST_F(SentencePieceCodecTest, UnknownCharactersAreFlaggedOrRefused) {
  const auto codec = *TextCodec::Create(Config(), Model());
  const absl::StatusOr<EncodedText> encoded = codec->Encode("beam €");
  ASSERT_TRUE(encoded.ok());
  ASSERT_EQ(encoded->unknown_positions.size(), 1u);
  EXPECT_EQ(encoded->ids[static_cast<size_t>(encoded->unknown_positions[0])], codec->unknown_id());
  v1::TextConfig strict = Config();
  strict.clear_unknown_token();
  const absl::Status status = (*TextCodec::Create(strict, Model()))->Encode("beam €").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'€' (U+20ac)"));
}

TEST_F(SentencePieceCodecTest, TextCannotSpellControlTokens) {
  const auto codec = *TextCodec::Create(Config(), Model());
  const absl::StatusOr<EncodedText> encoded = codec->Encode("</s>");
  ASSERT_TRUE(encoded.ok());
  for (size_t i = 0; i + 1 < encoded->ids.size(); ++i) {
    EXPECT_NE(encoded->ids[i], codec->end_ids()[0]);
  }
}

TEST_F(SentencePieceCodecTest, IdsOutsideAreWrittenAsNumbers) {
  const auto codec = *TextCodec::Create(Config(), Model());
  EXPECT_EQ(codec->Decode({codec->size(), -7}), absl::StrCat("<", codec->size(), "><-7>"));
  EXPECT_EQ(codec->Decode({}), "");
}

TEST_F(SentencePieceCodecTest, EmptyBlankAndBrokenTextIsRefused) {
  const auto codec = *TextCodec::Create(Config(), Model());
  for (const char* bad : {"", "   ", "a\xFF"}) {
    EXPECT_EQ(codec->Encode(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST_F(SentencePieceCodecTest, WhatIsNoModelFileIsRefused) {
  for (const std::string& content :
       {std::string(), std::string("hello"), std::string(1000, '\xff'),
        Model().substr(0, Model().size() / 2), std::string("\n\0", 2)}) {
    const absl::Status status = TextCodec::Create(Config(), content).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << content.size();
    EXPECT_THAT(std::string(status.message()), HasSubstr("'text.model'"));
  }
}

TEST_F(SentencePieceCodecTest, SpecialTokensMustBePieces) {
  v1::TextConfig config = Config();
  config.set_begin_token("<bos>");
  const absl::Status status = TextCodec::Create(config, Model()).status();
  EXPECT_EQ(status.message(), "begin_token: '<bos>' is not in the vocabulary");
}

}  // namespace
}  // namespace beamwright::bundle
