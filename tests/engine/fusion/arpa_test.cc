// ARPA files: what is read, and what is refused, with its line.
#include <cmath>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/fusion/ngram_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::fusion {
namespace {

using ::testing::HasSubstr;

constexpr char kFile[] =
    "written by hand\n"
    "\\data\\\n"
    "ngram 1=5\n"
    "ngram  2 = 2\n"
    "\n"
    "\\1-grams:\n"
    "-1.5\t<s>\t-0.25\n"
    "-0.5\t</s>\n"
    "-1\ta\t-0.125\n"
    "-2\tb\n"
    "-0.75\televen\n"
    "\n"
    "\\2-grams:\n"
    "-0.25\t<s> a\r\n"
    "-0.5 a b\n"
    "\\end\\\n";

// Tokens: 0 ends, 1 is "a", 2 is "b", 3 is not in the file.
absl::StatusOr<std::shared_ptr<const NgramModel>> Read(absl::string_view content) {
  return ReadArpa(content, {4, {0}}, [](absl::string_view word) {
    return word == "a" ? 1 : word == "b" ? 2 : -1;
  });
}

std::string Error(const std::string& content) {
  const auto model = Read(content);
  EXPECT_FALSE(model.ok()) << content;
  return std::string(model.status().message());
}

std::string With(const char* from, const char* to) {
  return absl::StrReplaceAll(kFile, {{from, to}});
}

// As KenLM writes it, and as SRILM does.
TEST(ArpaTest, TheUnknownWordIsOfTokensWithoutUnigram) {
  for (const char* const unknown : {"<unk>", "<UNK>"}) {
    SCOPED_TRACE(unknown);
    const auto model = Read(With("eleven", unknown));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->num_ngrams(), 7);
    const NgramModel::State behind_b = (*model)->Next((*model)->Start(), 2);
    EXPECT_NEAR((*model)->LogProb(behind_b, 3), -0.75 * std::log(10.0), 1e-6);
  }
}

TEST(ArpaTest, ProbabilitiesAreThoseOfTheFile) {
  const auto model = Read(kFile);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->order(), 2);
  EXPECT_EQ((*model)->num_ngrams(), 6) << "'eleven' is not a token";
  const double ln10 = std::log(10.0);
  std::vector<float> scores(4);
  (*model)->Score((*model)->Start(), absl::MakeSpan(scores));
  EXPECT_NEAR(scores[0], (-0.25 - 0.5) * ln10, 1e-6);  // back-off of <s>, then </s>
  EXPECT_NEAR(scores[1], -0.25 * ln10, 1e-6);
  EXPECT_NEAR(scores[2], (-0.25 - 2) * ln10, 1e-6);
  EXPECT_NEAR(scores[3], (-0.25 - 100) * ln10, 1e-4);
  (*model)->Score((*model)->Next((*model)->Start(), 1), absl::MakeSpan(scores));
  EXPECT_NEAR(scores[2], -0.5 * ln10, 1e-6);
  EXPECT_NEAR(scores[1], (-0.125 - 1) * ln10, 1e-6);
}

TEST(ArpaTest, BackOffAboveZeroCannotMakeAProbabilityAboveOne) {
  const auto model = Read(With("-0.125", "9"));
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<float> scores(4);
  (*model)->Score((*model)->Next((*model)->Start(), 1), absl::MakeSpan(scores));
  EXPECT_EQ(scores[1], 0);
}

TEST(ArpaTest, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_THAT(Error(""), HasSubstr("expected \\data\\"));
  EXPECT_THAT(Error("hello\n"), HasSubstr("line 1: the file ends; expected \\data\\"));
  EXPECT_THAT(Error("\\data\\\n"), HasSubstr("line 1: the file ends; expected 'ngram 1=COUNT'"));
  EXPECT_THAT(Error(With("ngram 1=5", "ngram 2=5")), HasSubstr("line 3: expected 'ngram 1=COUNT'"));
  EXPECT_THAT(Error(With("ngram 1=5", "ngram 1=9223372036854775807")),
              HasSubstr("line 3: a count between 1 and what the file's"));
  EXPECT_THAT(Error(With("ngram 1=5", "ngram 1=-5")), HasSubstr("line 3: a count"));
  EXPECT_THAT(Error(With("ngram 1=5", "ngram 1=six")), HasSubstr("line 3: expected 'ngram 1="));
  EXPECT_THAT(Error(With("ngram 1=5", "ngram 1=4")), HasSubstr("line 11: more than the 4 n-grams"));
  EXPECT_THAT(Error(With("ngram 1=5", "ngram 1=6")),
              HasSubstr("line 13: expected 6 n-grams of order 1, read 5, found '\\\\2-grams:'"));
  EXPECT_THAT(Error(With("-2\tb", "nan\tb")), HasSubstr("line 10: expected a finite logarithm"));
  EXPECT_THAT(Error(With("-2\tb", "-inf\tb")), HasSubstr("line 10: expected a finite logarithm"));
  EXPECT_THAT(Error(With("-2\tb", "0.5\tb")), HasSubstr("line 10: expected a finite logarithm"));
  EXPECT_THAT(Error(With("-0.125", "inf")), HasSubstr("line 9: expected a finite back-off weight"));
  EXPECT_THAT(Error(With("-0.5 a b", "-0.5 a b -1")), HasSubstr("line 15: expected a logarithm"));
  EXPECT_THAT(Error(With("-0.5 a b", "-0.5 a")), HasSubstr("line 15: expected a logarithm"));
  EXPECT_THAT(Error(With("-0.5 a b", "-0.5 <s> a")),
              HasSubstr("line 15: the n-gram is in line 14 already"));
  EXPECT_THAT(Error(With("\\2-grams:", "\\3-grams:")), HasSubstr("line 13: expected \\2-grams:"));
  EXPECT_THAT(Error(With("\\end\\", "")), HasSubstr("the file ends"));
  EXPECT_THAT(Error("\\data\\\nngram 1=1\n\\1-grams:\n-1 <s>\n\\end\\\n"),
              HasSubstr("none of the 1 unigrams is a token"));
  EXPECT_THAT(Error(With("<s> a\r", absl::StrCat("<s>", std::string(300, 'x'), "\r").c_str())),
              HasSubstr("..."));
}

TEST(ArpaTest, EveryPrefixOfAFileIsRefusedOrRead) {
  const std::string whole = kFile;
  for (size_t size = 0; size + 1 < whole.size(); ++size) {
    const auto model = Read(whole.substr(0, size));
    EXPECT_EQ(model.ok(), size >= whole.size() - 1) << size;
  }
}

TEST(ArpaTest, ChangedBytesNeverCrash) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 5000; ++trial) {
    std::string content = kFile;
    for (int i = 0; i < 3; ++i) {
      content[random() % content.size()] = static_cast<char>(random() % 256);
    }
    const auto model = Read(content);
    if (model.ok()) {
      std::vector<float> scores(4);
      (*model)->Score((*model)->Next((*model)->Start(), 1), absl::MakeSpan(scores));
      for (const float score : scores) {
        EXPECT_LE(score, 0);
      }
    } else {
      EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
}

}  // namespace
}  // namespace beamwright::fusion
