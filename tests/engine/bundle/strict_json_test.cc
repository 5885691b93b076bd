#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/bundle/proto_text.h"

namespace beamwright::bundle {
namespace {

TEST(StrictJsonTest, WhatTheReaderWouldChangeIsNamedWithItsPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"sources": [null, {"text": "cat"}]})", "sources[0]: is null; a list holds values only"},
      {R"({"sources": [{"text": "a"}, {"ids": {"ids": [5, null, 6]}}]})",
       "sources[1].ids.ids[1]: is null; a list holds values only"},
      {R"({"a": {"x": [[1], 2]}})", "a.x[0]: is a list within a list"},
      {R"({"sources": [1], "options": {"b": 2}, "sources": [2]})",
       "sources: stands there more than once"},
      {R"({"a": [{"b": 1, b: 2}]})", "a[0].b: stands there more than once"},
      {"[null]", "[0]: is null; a list holds values only"},
      {"{'a':[1,null]}", "a[1]: is null; a list holds values only"},
  };
  for (const auto& [json, message] : cases) {
    const absl::Status status = CheckStrictJson(json);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json;
    EXPECT_EQ(status.message(), message) << json;
  }
}

TEST(StrictJsonTest, WhatIsReadAsWrittenPasses) {
  for (const char* json :
       {"", "{}", "null", R"({"a": null, "b": {"a": 1}, "c": [{"a": 1}, {"a": 2}]})",
        R"({"a": ["null", "[", "\"null,", "\\", "]"], "ab": "{"})",
        R"({"null": [true, -1.5e3]})"}) {
    EXPECT_TRUE(CheckStrictJson(json).ok()) << json << " " << CheckStrictJson(json);
  }
}

TEST(JsonBoundsTest, CommasThatNoValueFollowsAreNamedWithTheirByte) {
  for (const auto& [json, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"a": [1, 2,]})", "not JSON: the bracket at byte 12 follows a comma"},
           {R"({"a": 1, })", "not JSON: the bracket at byte 9 follows a comma"},
           {R"([{"a": 1},])", "not JSON: the bracket at byte 10 follows a comma"},
           {"[1,, 2]", "not JSON: the comma at byte 3 follows another comma"}}) {
    EXPECT_EQ(CheckJsonBounds(json).message(), message) << json;
  }
  for (const char* json :
       {"", "{}", "[]", R"({"a": [",]", {}, ",}"], "b": {"c": null}})", ",", "]"}) {
    EXPECT_TRUE(CheckJsonBounds(json).ok()) << json << " " << CheckJsonBounds(json);
  }
}

TEST(JsonBoundsTest, DepthAndNumberOfValuesAreBounded) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + "1" + std::string(depth, ']');
  };
  EXPECT_TRUE(CheckJsonBounds(nested(kMaxJsonDepth)).ok());
  EXPECT_EQ(CheckJsonBounds(nested(kMaxJsonDepth + 1)).message(),
            "the JSON is nested deeper than 64 levels");
  EXPECT_EQ(CheckJsonBounds(nested(200'000)).code(), absl::StatusCode::kInvalidArgument);
  const auto list = [](const std::string& element, int64_t count) {
    std::string json = "[" + element;
    for (int64_t i = 1; i < count; ++i) {
      json += "," + element;
    }
    return json + "]";
  };
  EXPECT_TRUE(CheckJsonBounds(list("1", kMaxJsonScalars)).ok());
  EXPECT_EQ(
      CheckJsonBounds(list("1", kMaxJsonScalars + 1)).message(),
      "the JSON has more than 1048576 names, numbers and strings; send it as several calls, or "
      "tensors as binary data");
  EXPECT_TRUE(CheckJsonBounds(list("{}", kMaxJsonContainers - 1)).ok());
  EXPECT_EQ(CheckJsonBounds(list("{}", kMaxJsonContainers)).code(),
            absl::StatusCode::kInvalidArgument);
}

// However the pieces are cut, they mean what the whole text means.
TEST(JsonBoundsTest, PiecesMeanWhatTheyMeanTogether) {
  JsonBounds counts;
  for (const char* piece :
       {R"({"a)", R"(": [12)", R"(3, 'x\)", R"(',', null, ")", R"([{"], [], {}]})"}) {
    EXPECT_TRUE(counts.Add(piece).ok()) << piece;
  }
  EXPECT_EQ(counts.num_values(), 9);
  constexpr absl::string_view kBytes = "[]{},,::\"'\\ a1\n";
  std::mt19937 random(7);
  int num_refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 16, ' ');
    for (char& c : text) {
      c = kBytes[random() % kBytes.size()];
    }
    const absl::Status whole = CheckJsonBounds(text);
    JsonBounds bounds;
    absl::Status status;
    for (size_t at = 0; at < text.size() && status.ok();) {
      const size_t size = 1 + random() % 4;
      status = bounds.Add(absl::string_view(text).substr(at, size));
      at += size;
    }
    EXPECT_EQ(status, whole) << text;
    num_refused += whole.ok() ? 0 : 1;
  }
  EXPECT_GT(num_refused, 500);
}

// Nothing is read beyond the end, whatever the text.
TEST(StrictJsonTest, OtherTextHarmsNobody) {
  for (const char* text : {"]", "}{", "\"", "\"\\", "[\"\\", "{\"a", ",", "'", "{:,}", "[,]]]"}) {
    CheckStrictJson(text).IgnoreError();
    CheckJsonBounds(text).IgnoreError();
  }
}

}  // namespace
}  // namespace beamwright::bundle
