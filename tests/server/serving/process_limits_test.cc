#include "server/serving/process_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

namespace beamwright::serving {
namespace {

TEST(ProcessLimitsTest, AFewThreadsCanBeHad) { EXPECT_TRUE(CheckThreads(8).ok()); }

// Each runs in a child process, whose limits end with it.
[[noreturn]] void CheckThreadsInLittleSpace() {
  // What malloc gives back to itself is there for the message: nothing can be had of the system.
  volatile char* const room = static_cast<char*>(std::malloc(96 << 10));
  room[0] = 0;
  std::free(const_cast<char*>(room));
  const rlimit little{1 << 20, 1 << 20};
  setrlimit(RLIMIT_AS, &little);
  const absl::Status status = CheckThreads(2000);
  std::fputs(std::string(status.message()).c_str(), stderr);
  std::_Exit(status.ok() ? 0 : 7);
}

void ThrowOnAThread() {
  ExplainTermination();
  std::thread([] { throw std::runtime_error("no more of it"); }).join();
}

[[noreturn]] void RaiseFromAHundred() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlim_t most = files.rlim_max;
  files.rlim_cur = 100;
  setrlimit(RLIMIT_NOFILE, &files);
  const int64_t raised = RaiseFileLimit();
  getrlimit(RLIMIT_NOFILE, &files);
  std::_Exit(files.rlim_cur == most && raised > 100 ? 7 : 1);
}

TEST(ProcessLimitsDeathTest, TooLittleAddressSpaceForThreadsIsSaid) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(CheckThreadsInLittleSpace(), ::testing::ExitedWithCode(7),
              "cannot start more than .* threads, .* needs 2000 .*ulimit -v");
}

TEST(ProcessLimitsDeathTest, AnExceptionThatNothingCatchesEndsWithAMessage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ThrowOnAThread(), ::testing::ExitedWithCode(1), "no more of it; .*ulimit -u");
}

TEST(ProcessLimitsDeathTest, TheSoftLimitOfFilesBecomesTheHardOne) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(RaiseFromAHundred(), ::testing::ExitedWithCode(7), "");
}

TEST(ProcessLimitsTest, AQuarterOfFewFilesIsKeptBack) {
  EXPECT_EQ(FilesKeptBack(100), 25);
  EXPECT_EQ(FilesKeptBack(1024), 128);
  EXPECT_EQ(FilesKeptBack(1 << 20), 128);
}

}  // namespace
}  // namespace beamwright::serving
