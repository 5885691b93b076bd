#include <gtest/gtest.h>

#include <atomic>

#include "server/serving/server_threads.h"

namespace beamwright::serving {
namespace {

TEST(StartupWatchTest, WhoIsNotReadyInTimeIsToldOf) {
  absl::Notification told;
  StartupWatch watch(absl::Milliseconds(1), [&told] { told.Notify(); });
  told.WaitForNotification();
}

TEST(StartupWatchTest, WhoIsReadyOrGivesUpIsLeftAlone) {
  std::atomic<int> told{0};
  const auto count = [&told] { ++told; };
  {
    StartupWatch ready(absl::Hours(1), count);
    ready.Started();
  }
  { const StartupWatch failed(absl::Hours(1), count); }
  {
    StartupWatch never(absl::ZeroDuration(), count);
    never.Started();
  }
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace beamwright::serving
