#include "server/serving/reply_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"

namespace beamwright::serving {
namespace {

TEST(ReplyThreadTest, RunsAllInOrderBeforeItEnds) {
  std::vector<int> order;
  {
    ReplyThread replies;
    for (int i = 0; i < 1000; ++i) {
      replies.Post([&order, i] { order.push_back(i); });
    }
  }
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
}

TEST(ReplyThreadTest, TakesPostsFromManyThreadsAndFromReplies) {
  std::atomic<int> count{0};
  {
    ReplyThread replies;
    std::vector<std::thread> posters;
    for (int t = 0; t < 4; ++t) {
      posters.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          replies.Post([&] { ++count; });
        }
      });
    }
    for (std::thread& poster : posters) {
      poster.join();
    }
    absl::Notification inner;
    replies.Post([&] { replies.Post([&] { inner.Notify(); }); });
    inner.WaitForNotification();
  }
  EXPECT_EQ(count, 2000);
}

}  // namespace
}  // namespace beamwright::serving
