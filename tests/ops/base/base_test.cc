#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/base/cpu.h"
#include "ops/base/file.h"
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

}  // namespace
}  // namespace beamwright
