#include "server/serving/memory_account.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "engine/status/fault.h"

namespace beamwright::serving {
namespace {

using Hold = MemoryAccount::Hold;

constexpr int64_t kSmall = MemoryAccount::kSmallBytes;
constexpr int64_t kLimit = 16 * kSmall;

TEST(MemoryAccountTest, BytesAreHeldUntilTheirHoldIsGone) {
  MemoryAccount account(kLimit);
  {
    const absl::StatusOr<Hold> hold = account.Reserve(1000);
    ASSERT_TRUE(hold.ok());
    EXPECT_EQ(hold->bytes(), 1000);
    EXPECT_EQ(account.held_bytes(), 1000);
  }
  EXPECT_EQ(account.held_bytes(), 0);
}

TEST(MemoryAccountTest, AHoldGrowsAndShrinksAndMoves) {
  MemoryAccount account(kLimit);
  Hold first = *account.Reserve(1000);
  EXPECT_TRUE(first.Resize(3000));
  EXPECT_EQ(account.held_bytes(), 3000);
  EXPECT_TRUE(first.Resize(500));
  EXPECT_EQ(account.held_bytes(), 500);
  Hold second = *account.Reserve(70);
  second = std::move(first);
  EXPECT_EQ(account.held_bytes(), 500);
  EXPECT_EQ(second.bytes(), 500);
  EXPECT_EQ(first.bytes(), 0);  // NOLINT(bugprone-use-after-move)
  Hold third(std::move(second));
  EXPECT_EQ(account.held_bytes(), 500);
  third.Release();
  third.Release();
  EXPECT_EQ(account.held_bytes(), 0);
}

TEST(MemoryAccountTest, AHoldThatCannotGrowStaysAsItWas) {
  MemoryAccount account(kLimit);
  Hold hold = *account.Reserve(2 * kSmall);
  EXPECT_FALSE(hold.Resize(kLimit));
  EXPECT_EQ(hold.bytes(), 2 * kSmall);
  EXPECT_EQ(account.held_bytes(), 2 * kSmall);
  Hold none;
  EXPECT_TRUE(none.Resize(0));
  EXPECT_FALSE(none.Resize(1));
}

TEST(MemoryAccountTest, LargeHoldsLeaveTheLastQuarterToSmallOnes) {
  MemoryAccount account(kLimit);
  const Hold large = *account.Reserve(12 * kSmall);
  const absl::Status refused = account.Reserve(kSmall + 1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status::ReasonOf(refused), status::reason::kOutOfMemory);
  EXPECT_EQ(status::RetryAfterOf(refused), absl::Seconds(1));
  std::vector<Hold> small;
  for (int i = 0; i < 4; ++i) {
    absl::StatusOr<Hold> hold = account.Reserve(kSmall);
    ASSERT_TRUE(hold.ok()) << i;
    small.push_back(*std::move(hold));
  }
  EXPECT_FALSE(account.Reserve(1).ok());
  small.pop_back();
  EXPECT_TRUE(account.Reserve(1).ok());
}

TEST(MemoryAccountTest, ARequestThatNeverFitsIsNotWorthAnotherTry) {
  MemoryAccount account(kLimit);
  const absl::Status refused = account.Reserve(12 * kSmall + 1).status();
  EXPECT_EQ(status::ReasonOf(refused), status::reason::kOutOfMemory);
  EXPECT_EQ(status::RetryAfterOf(refused), std::nullopt);
  EXPECT_EQ(refused.message(),
            "the request needs 786433 bytes of memory, more than the 786432 that one call may "
            "hold; split the request");
}

TEST(MemoryAccountTest, WithoutALimitBytesAreCountedAlone) {
  MemoryAccount account;
  Hold hold = *account.Reserve(int64_t{1} << 50);
  EXPECT_EQ(account.held_bytes(), int64_t{1} << 50);
  account.SetLimit(kLimit);
  EXPECT_FALSE(account.Reserve(1).ok());
  hold.Release();
  EXPECT_TRUE(account.Reserve(1).ok());
}

TEST(MemoryAccountTest, ThreadsNeverHoldMoreThanTheLimitTogether) {
  MemoryAccount account(kLimit);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&account] {
      for (int round = 0; round < 20'000; ++round) {
        const absl::StatusOr<Hold> hold = account.Reserve(6 * kSmall);
        EXPECT_LE(account.held_bytes(), kLimit);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(account.held_bytes(), 0);
}

}  // namespace
}  // namespace beamwright::serving
