#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "server/serving/server_threads.h"

namespace beamwright::serving {
namespace {

TEST(TaskThreadTest, RunsAllInOrderBeforeItEnds) {
  std::vector<int> order;
  {
    TaskThread tasks("test");
    for (int i = 0; i < 1000; ++i) {
      tasks.Post([&order, i] { order.push_back(i); });
    }
  }
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
}

TEST(TaskThreadTest, TakesPostsFromManyThreadsAndFromTasks) {
  std::atomic<int> count{0};
  {
    TaskThread tasks("test");
    std::vector<std::thread> posters;
    for (int t = 0; t < 4; ++t) {
      posters.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          tasks.Post([&] { ++count; });
        }
      });
    }
    for (std::thread& poster : posters) {
      poster.join();
    }
    absl::Notification inner;
    tasks.Post([&] { tasks.Post([&] { inner.Notify(); }); });
    inner.WaitForNotification();
  }
  EXPECT_EQ(count, 2000);
}

}  // namespace
}  // namespace beamwright::serving
