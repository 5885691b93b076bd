#include "ops/base/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace beamwright {
namespace {

std::string Written(absl::string_view text) { return JsonWriter().String(text).text(); }

void WriteAll(JsonWriter& json) {
  json.BeginObject();
  json.Key("list").BeginArray().Int(-5).Bool(true).Null().Double(0.5).EndArray();
  json.Key("none").BeginObject().EndObject().Key("empty").BeginArray().EndArray();
  json.Key("raw").Json("{\"a\":[1]}");
  json.EndObject();
}

TEST(JsonWriterTest, CompactHasNoWhiteSpace) {
  JsonWriter json;
  WriteAll(json);
  EXPECT_EQ(json.text(), R"({"list":[-5,true,null,0.5],"none":{},"empty":[],"raw":{"a":[1]}})");
}

TEST(JsonWriterTest, IndentedHasAValueALine) {
  JsonWriter json(JsonWriter::Style::kIndented);
  WriteAll(json);
  EXPECT_EQ(json.text(),
            "{\n \"list\": [\n  -5,\n  true,\n  null,\n  0.5\n ],\n \"none\": {},\n"
            " \"empty\": [],\n \"raw\": {\"a\":[1]}\n}");
}

TEST(JsonWriterTest, WhatIsNotUtf8IsReplacedByteByByte) {
  const std::string bad = "\"\xEF\xBF\xBD\"";
  EXPECT_EQ(Written("\xFF"), bad);
  EXPECT_EQ(Written("\xC3\xA4\xC3"), "\"\xC3\xA4\xEF\xBF\xBD\"");
  // A surrogate has three bytes.
  EXPECT_EQ(Written("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(JsonWriter().BeginObject().Key("\xFF").Int(1).EndObject().text(),
            absl::StrCat("{", bad, ":1}"));
}

TEST(JsonWriterTest, WhatJsonReservesIsEscaped) {
  EXPECT_EQ(Written("a\"\\/"), R"("a\"\\/")");
  EXPECT_EQ(Written("\b\t\n\f\r"), R"("\b\t\n\f\r")");
  for (const int c : {0, 1, 7, 0x0B, 0x0E, 0x1F}) {
    EXPECT_EQ(Written(std::string(1, static_cast<char>(c))), absl::StrFormat("\"\\u%04X\"", c));
  }
  for (const char* plain : {" ", "!", "~", "\x7F", "\xC3\xA9", "\xF0\x9F\x98\x80"}) {
    EXPECT_EQ(Written(plain), absl::StrCat("\"", plain, "\""));
  }
}

TEST(JsonWriterTest, NumbersAreReadAsTheSame) {
  for (const double value : {0.1, 1e300, -1.0 / 3, 5e-324, 0.0, -0.0}) {
    const std::string text = JsonWriter().Double(value).text();
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
  }
  for (const float value : {0.1F, -1e-30F, 3e38F}) {
    const std::string text = JsonWriter().Float(value).text();
    EXPECT_EQ(std::strtof(text.c_str(), nullptr), value) << text;
  }
  EXPECT_EQ(JsonWriter().Float(0.1F).text(), "0.1");
  EXPECT_EQ(JsonWriter().Int(std::numeric_limits<int64_t>::min()).text(), "-9223372036854775808");
  EXPECT_EQ(JsonWriter().Uint(~uint64_t{0}).text(), "18446744073709551615");
}

TEST(JsonWriterTest, WhatJsonLacksIsNull) {
  for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    EXPECT_EQ(JsonWriter().Double(value).text(), "null");
    EXPECT_EQ(JsonWriter().Float(static_cast<float>(value)).text(), "null");
  }
}

}  // namespace
}  // namespace beamwright
