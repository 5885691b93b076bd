#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "server/serving/logging.h"

namespace beamwright::serving {
namespace {

class LogWriterTest : public ::testing::Test {
 protected:
  LogWriterTest() {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    options_.fd = ends_[1];
  }
  ~LogWriterTest() override {
    close(ends_[0]);
    CloseForWriting();
  }

  void CloseForWriting() {
    if (ends_[1] >= 0) {
      close(ends_[1]);
      ends_[1] = -1;
    }
  }
  // To the end of the pipe.
  std::string ReadAll() {
    std::string text;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = read(ends_[0], bytes, sizeof(bytes))) > 0) {
      text.append(bytes, static_cast<size_t>(got));
    }
    return text;
  }

  int ends_[2];
  LogWriterOptions options_;
};

TEST_F(LogWriterTest, LinesAreWrittenInTheirOrder) {
  std::string expected;
  {
    LogWriter writer(options_);
    for (int i = 0; i < 1000; ++i) {
      const std::string line = absl::StrCat("line ", i, "\n");
      expected += line;
      writer.Write(line);
    }
    EXPECT_TRUE(writer.Flush(absl::InfiniteDuration()));
    EXPECT_EQ(writer.dropped(), 0);
  }
  CloseForWriting();
  EXPECT_TRUE(ReadAll() == expected);
}

TEST_F(LogWriterTest, ALineThatIsLongerThanAPipeIsWhole) {
  const std::string line = std::string(300'000, 'x') + "\n";
  std::string text;
  std::thread reader([&] { text = ReadAll(); });
  {
    LogWriter writer(options_);
    writer.Write(line);
    EXPECT_TRUE(writer.Flush(absl::InfiniteDuration()));
  }
  CloseForWriting();
  reader.join();
  EXPECT_TRUE(text == line);
}

// Without a reader the writer goes on, the newest lines are kept, and lost lines are reported as
// soon as they are read.
TEST_F(LogWriterTest, APipeThatNobodyReadsHoldsNobodyUp) {
  constexpr int kLines = 100'000;  // 1.6 MB, of which a pipe takes 64 KiB
  absl::Notification told;
  int64_t dropped = 0;
  options_.max_bytes = 100'000;
  options_.flows_again = [&](int64_t lines) {
    dropped += lines;
    if (!told.HasBeenNotified()) {
      told.Notify();
    }
  };
  auto writer = std::make_unique<LogWriter>(options_);
  for (int i = 0; i < kLines; ++i) {
    writer->Write(absl::StrCat("line ", 1'000'000'000 + i, "\n"));
  }
  EXPECT_FALSE(writer->Flush(absl::ZeroDuration()));
  EXPECT_GT(writer->dropped(), kLines / 2);
  std::string text;
  std::thread reader([&] { text = ReadAll(); });
  EXPECT_TRUE(writer->Flush(absl::InfiniteDuration()));
  told.WaitForNotification();
  const int64_t lost = writer->dropped();
  writer.reset();
  CloseForWriting();
  reader.join();
  EXPECT_EQ(dropped, lost);
  EXPECT_TRUE(absl::EndsWith(text, absl::StrCat("line ", 1'000'000'000 + kLines - 1, "\n")));
  // Every line that is there is whole, and no other is missing.
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  EXPECT_EQ(static_cast<int64_t>(lines.size()), kLines - lost);
  for (const std::string& line : lines) {
    ASSERT_EQ(line.size(), 15u) << line;
  }
}

TEST_F(LogWriterTest, AWriterEndsThoughNobodyReads) {
  LogWriter writer(options_);
  writer.Write(std::string(1'000'000, 'x'));
  EXPECT_FALSE(writer.Flush(absl::Milliseconds(10)));
}

TEST_F(LogWriterTest, WhatCannotBeWrittenIsCounted) {
  options_.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  LogWriter writer(options_);
  writer.Write("a\n");
  EXPECT_TRUE(writer.Flush(absl::InfiniteDuration()));
  writer.Write("b\n");
  EXPECT_TRUE(writer.Flush(absl::InfiniteDuration()));
  EXPECT_EQ(writer.dropped(), 2);
  close(options_.fd);
}

}  // namespace
}  // namespace beamwright::serving
