#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "ops/base/steady_time.h"
#include "server/rpc/call_counts.h"

namespace beamwright::rpc {
namespace {

class FakeCall : public IncomingCall {
 public:
  void Refuse(const absl::Status& status) override {
    ++num_refused;
    why = status;
  }
  int num_refused = 0;
  absl::Status why;
};

TEST(IncomingCallsTest, OnlyTheOlderOnesAreRefused) {
  IncomingCalls calls;
  FakeCall old;
  calls.Add(old);
  absl::Time between = SteadyNow();
  while (SteadyNow() <= between) {
  }
  between = SteadyNow();
  FakeCall young;
  calls.Add(young);
  EXPECT_EQ(calls.RefuseOlderThan(between, absl::ResourceExhaustedError("full")), 1);
  EXPECT_EQ(old.num_refused, 1);
  EXPECT_EQ(old.why.message(), "full");
  EXPECT_EQ(young.num_refused, 0);
  EXPECT_FALSE(calls.Take(old));
  EXPECT_TRUE(calls.Take(young));
  EXPECT_FALSE(calls.Take(young));
}

TEST(IncomingCallsTest, ACallGoesOnIfItsRequestHasComeAndItWasNotRefused) {
  IncomingCalls calls;
  FakeCall whole;
  calls.Add(whole);
  EXPECT_TRUE(calls.Arrived(whole, true));
  EXPECT_EQ(whole.num_refused, 0);
  FakeCall left;
  calls.Add(left);
  EXPECT_FALSE(calls.Arrived(left, false));
  EXPECT_TRUE(absl::IsCancelled(left.why)) << left.why;
  EXPECT_EQ(calls.num_given_up(), 1);
  FakeCall refused;
  calls.Add(refused);
  calls.RefuseOlderThan(absl::InfiniteFuture(), absl::ResourceExhaustedError("full"));
  EXPECT_FALSE(calls.Arrived(refused, false));
  EXPECT_EQ(refused.num_refused, 1);
  EXPECT_EQ(calls.num_given_up(), 1);
}

TEST(IncomingCallsTest, ACallIsTakenOrRefusedNeverBoth) {
  IncomingCalls calls;
  std::vector<FakeCall> all(20'000);
  for (FakeCall& call : all) {
    calls.Add(call);
  }
  int num_refused = 0;
  std::thread refuses([&] {
    num_refused = calls.RefuseOlderThan(absl::InfiniteFuture(), absl::ResourceExhaustedError(""));
  });
  int num_taken = 0;
  std::vector<bool> taken(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    taken[i] = calls.Take(all[i]);
    num_taken += taken[i] ? 1 : 0;
  }
  refuses.join();
  EXPECT_EQ(num_taken + num_refused, 20'000);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].num_refused, taken[i] ? 0 : 1);
  }
}

}  // namespace
}  // namespace beamwright::rpc
