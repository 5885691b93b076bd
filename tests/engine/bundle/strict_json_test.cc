#include "engine/bundle/strict_json.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

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

// Nothing is read beyond the end, whatever the text.
TEST(StrictJsonTest, OtherTextHarmsNobody) {
  for (const char* text : {"]", "}{", "\"", "\"\\", "[\"\\", "{\"a", ",", "'", "{:,}", "[,]]]"}) {
    CheckStrictJson(text).IgnoreError();
  }
}

}  // namespace
}  // namespace beamwright::bundle
