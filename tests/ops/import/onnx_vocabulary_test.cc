// The table of ONNX's operators against the published list of their versions.
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/import/onnx_operators.h"
#include "ops/loop/operators.h"

namespace beamwright::ops {
namespace {

std::map<std::string, std::vector<int>> PublishedVersions() {
  std::map<std::string, std::vector<int>> result;
  std::ifstream file(BEAMWRIGHT_SOURCE_DIR "/tests/ops/import/testdata/onnx_operator_versions.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (int version; name != "#" && words >> version;) {
      result[name].push_back(version);
    }
  }
  return result;
}

// A version that the table lacks would be read as the one before it.
TEST(OnnxVocabularyTest, KnowsEveryVersionFromTheOldestOpsetOn) {
  const auto published = PublishedVersions();
  ASSERT_GT(published.size(), 190u);
  for (const OnnxOperator* op : AllOnnxOperators()) {
    if (absl::string_view(op->name) == "SimplifiedLayerNormalization") {
      continue;  // ONNX Runtime's own, which it writes into this domain
    }
    const auto found = published.find(op->name);
    ASSERT_NE(found, published.end()) << op->name;
    std::vector<int> expected;
    if (absl::string_view(op->name) == "LayerNormalization") {
      expected = {1};  // ONNX Runtime's own, with the same meaning, until opset 17 took it over
    }
    for (const int version : found->second) {
      if (version <= kOldestOpset) {
        expected.assign({version});
      } else {
        expected.push_back(version);
      }
    }
    EXPECT_EQ(op->versions, expected) << op->name;
  }
}

TEST(OnnxVocabularyTest, VersionInForceIsTheLastOneNotAboveTheOpset) {
  const OnnxOperator* clip = FindOnnxOperator("", "Clip");
  ASSERT_NE(clip, nullptr);
  EXPECT_EQ(clip->VersionAt(8), 6);
  EXPECT_EQ(clip->VersionAt(11), 11);
  EXPECT_EQ(clip->VersionAt(25), 13);
  EXPECT_EQ(FindOnnxOperator("", "Where")->VersionAt(8), 0);
  EXPECT_EQ(FindOnnxOperator("org.example", "Clip"), nullptr);
}

// What an operator is documented to become must exist.
TEST(OnnxVocabularyTest, BecomesKnownOperators) {
  for (const OnnxOperator* op : AllOnnxOperators()) {
    std::string text = op->becomes;
    for (const char* word : {", or ", " or ", " and "}) {
      for (size_t at; (at = text.find(word)) != std::string::npos;) {
        text.replace(at, std::string(word).size(), ", ");
      }
    }
    for (const absl::string_view name : absl::StrSplit(text, ", ", absl::SkipEmpty())) {
      if (name != "nothing" && name != "Constant" && name != "If" && name != "Loop") {
        EXPECT_NE(Operators().Find(name), nullptr) << op->name << " becomes " << name;
      }
    }
  }
}

}  // namespace
}  // namespace beamwright::ops
