// What rooms of ops/base share: status, files, text, JSON, names, random numbers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "ops/base/cpu.h"
#include "ops/base/file.h"
#include "ops/base/json_writer.h"
#include "ops/base/names.h"
#include "ops/base/philox.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright {
namespace {

using ::testing::HasSubstr;

TEST(Annotate, KeepsCodeAndPayload) {
  absl::Status status = absl::DataLossError("short");
  status.SetPayload("type/x", absl::Cord("payload"));
  const absl::Status annotated = Annotate(status, "file 'a'");
  EXPECT_EQ(annotated.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(annotated.message(), "file 'a': short");
  EXPECT_EQ(annotated.GetPayload("type/x"), absl::Cord("payload"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
}

TEST(ReadFile, ContentAndErrorsNameThePath) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/beamwright_read_file-", getpid());
  FILE* file = std::fopen(path.c_str(), "wb");
  std::fwrite("a\0b", 1, 3, file);
  std::fclose(file);
  EXPECT_EQ(*ReadFile(path), std::string("a\0b", 3));
  EXPECT_THAT(ReadFile(path, 2).status().message(), HasSubstr("at most 2"));
  EXPECT_EQ(ReadFile(path + ".none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ReadFile("/tmp").status().message(), HasSubstr("not a regular file"));
  const std::string fifo = path + ".fifo";
  std::remove(fifo.c_str());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(ReadFile(fifo).status().message(), HasSubstr("not a regular file"));
  std::remove(fifo.c_str());
  std::remove(path.c_str());
}

TEST(UsableCpus, FollowsTheAffinity) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_GE(UsableCpus(), 1);
  EXPECT_LE(UsableCpus(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(UsableCpus(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(PrintableTest, NothingReachesATerminalAsACommand) {
  EXPECT_EQ(Printable("a\nb\x1b[31m\x7f"), "a\\nb\\x1b[31m\\x7f");
  EXPECT_EQ(Printable("'\xc3\xa4' \xc2\x9b\xc2\xa0\xc2"), "'\xc3\xa4' \\u009b\xc2\xa0\\xc2");
}

TEST(PrintableTest, BytesThatAreNoUtf8AreEscaped) {
  EXPECT_EQ(Printable("a\xff\xfe z"), "a\\xff\\xfe z");
  EXPECT_EQ(Printable("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
            "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(Printable("\xc3"), "\\xc3");                    // cut off
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(Printable("\xc2\x9b"), "\\u009b");
}

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

TEST(NearestNameTest, TheNearestNameIfOneIsNear) {
  const std::vector<std::string> names = {"beam-size", "beam-threshold", "n-best",
                                          "length-penalty"};
  EXPECT_EQ(NearestName("beamsize", names), "beam-size");
  EXPECT_EQ(NearestName("baem-size", names), "beam-size");
  EXPECT_EQ(NearestName("len", names), "length-penalty");  // begins only that one
  EXPECT_EQ(NearestName("beam", names), "");               // begins two
  EXPECT_EQ(NearestName("nbset", names), "");
  EXPECT_EQ(NearestName("n_best", names), "n-best");
  EXPECT_EQ(NearestName("quantum", names), "");
  EXPECT_EQ(NearestName(std::string(1 << 20, 'n'), names), "");
  EXPECT_EQ(NearestName("x", {}), "");
}

using ::testing::ElementsAre;

// Known answers that the authors publish with their library (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(Philox({0, 0, 0, 0}, 0),
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffffu),
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822u),
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(Philox, UniformNumbersLieInsideTheUnitInterval) {
  double sum = 0;
  for (uint32_t i = 0; i < 100000; ++i) {
    const double u = PhiloxUniform({i, 7, 0, 0}, 42);
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);  // five standard deviations
}

}  // namespace

}  // namespace beamwright
