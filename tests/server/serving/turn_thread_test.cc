#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "ops/base/steady_time.h"
#include "server/serving/server_threads.h"
#include "server/serving/serving_state.h"

namespace beamwright::serving {
namespace {

using ::testing::ElementsAre;

class TurnThreadTest : public ::testing::Test {
 protected:
  // The thread does nothing else until `go_on_`.
  TurnThreadTest() {
    EXPECT_TRUE(thread_
                    ->Post(Caller{},
                           [this](const absl::Status& /*outcome*/) {
                             held_.Notify();
                             go_on_.WaitForNotification();
                           })
                    .ok());
    held_.WaitForNotification();
  }

  absl::Status Post(const std::string& name, const Caller& caller) {
    return thread_->Post(caller, [this, name](const absl::Status& outcome) {
      absl::MutexLock lock(&mutex_);
      done_.push_back(outcome.ok() ? name : name + " " + absl::StatusCodeToString(outcome.code()));
    });
  }
  absl::Status Post(const std::string& name, uint32_t connection) {
    Caller caller{};
    caller.connection = connection;
    return Post(name, caller);
  }

  // What was done, in order, once it is `count` pieces of work.
  std::vector<std::string> Finish(size_t count) {
    go_on_.Notify();
    const auto is_done = [&] { return done_.size() == count; };
    absl::MutexLock lock(&mutex_, absl::Condition(&is_done));
    return done_;
  }

  absl::Notification held_;
  absl::Notification go_on_;
  absl::Mutex mutex_;
  std::vector<std::string> done_;
  std::unique_ptr<TurnThread> thread_ = std::make_unique<TurnThread>("bw-test", 8);
};

TEST_F(TurnThreadTest, ClientsTakeTurns) {
  for (const char* name : {"a1", "a2", "a3"}) {
    EXPECT_TRUE(Post(name, 1).ok());
  }
  EXPECT_TRUE(Post("b1", 2).ok());
  EXPECT_TRUE(Post("b2", 2).ok());
  EXPECT_THAT(Finish(5), ElementsAre("a1", "b1", "a2", "b2", "a3"));
}

TEST_F(TurnThreadTest, ClientsThatHaveGoneHaveNoTurn) {
  const auto flag = std::make_shared<engine::CancelFlag>();
  Caller gone{};
  gone.cancelled = flag;
  EXPECT_TRUE(Post("first", 1).ok());
  EXPECT_TRUE(Post("gone", gone).ok());
  Caller late{};
  late.deadline = SteadyNow();
  EXPECT_TRUE(Post("late", late).ok());
  flag->Cancel();
  EXPECT_THAT(Finish(3),
              ::testing::UnorderedElementsAre("first", "gone CANCELLED", "late DEADLINE_EXCEEDED"));
}

TEST_F(TurnThreadTest, WhatWaitsAtTheEndIsEnded) {
  EXPECT_TRUE(Post("a", 1).ok());
  thread_->End(ShuttingDown());
  EXPECT_TRUE(absl::IsUnavailable(Post("b", 2)));
  EXPECT_THAT(Finish(1), ElementsAre("a UNAVAILABLE"));
}

TEST_F(TurnThreadTest, TooManyAreRefused) {
  size_t count = 0;
  absl::Status status = Post("a", 1);
  for (; status.ok() && count < 100; ++count) {
    status = Post("a", 1);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_LE(Finish(count).size(), 8u);
}

}  // namespace
}  // namespace beamwright::serving
