// Equal weights are one, and nothing else is.
#include "ops/kernels/shared_weights.h"

#include <gtest/gtest.h>

#include <thread>

namespace beamwright::ops {
namespace {

TEST(SharedWeights, EqualOnesAreOne) {
  const size_t before = NumSharedWeights();
  std::vector<float> values(6 * 4);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i);
  }
  const std::vector<float> copy = values;
  const auto first = SharePacked({values.data(), 6, 4, 4}, false);
  EXPECT_EQ(SharePacked({copy.data(), 6, 4, 4}, false), first);
  EXPECT_EQ(NumSharedWeights(), before + 1);
  // Other extents, another orientation, another element, even in its sign of zero alone.
  const auto extents = SharePacked({values.data(), 4, 6, 6}, false);
  const auto turned = SharePacked({values.data(), 6, 4, 4}, true);
  values[0] = -0.0f;
  const auto zero = SharePacked({values.data(), 6, 4, 4}, false);
  EXPECT_NE(extents, first);
  EXPECT_NE(turned, first);
  EXPECT_NE(zero, first);
  // Rows that stand apart in memory.
  std::vector<float> strided(6 * 5, -1);
  for (size_t i = 0; i < copy.size(); ++i) {
    strided[i / 4 * 5 + i % 4] = copy[i];
  }
  EXPECT_EQ(SharePacked({strided.data(), 6, 4, 5}, false), first);
}

// Memory that was freed may hold other elements later, at the same address.
TEST(SharedWeights, ElementsAreKnownByTheirAddressOnlyWhileTheyLive) {
  std::vector<float> values(12, 0.5f);
  auto lifetime = std::make_shared<int>();
  const auto first = SharePacked({values.data(), 3, 4, 4}, false, Precision::kF32, lifetime);
  EXPECT_EQ(SharePacked({values.data(), 3, 4, 4}, false, Precision::kF32, lifetime), first);
  EXPECT_NE(SharePacked({values.data(), 3, 4, 4}, true, Precision::kF32, lifetime), first);
  EXPECT_NE(SharePacked({values.data(), 4, 3, 3}, false, Precision::kF32, lifetime), first);
  EXPECT_NE(SharePacked({values.data(), 2, 4, 4}, false, Precision::kF32, lifetime), first);
  EXPECT_NE(SharePacked({values.data(), 3, 4, 4}, false, Precision::kInt8, lifetime), first);
  EXPECT_EQ(SharePacked({values.data(), 3, 4, 4}, false, Precision::kF32, lifetime), first);
  lifetime = std::make_shared<int>();
  values[5] = 0.25f;
  EXPECT_NE(SharePacked({values.data(), 3, 4, 4}, false, Precision::kF32, lifetime), first);
}

TEST(SharedWeights, TheLastUserFreesThem) {
  const size_t before = NumSharedWeights();
  const std::vector<float> values(12, 0.5f);
  auto first = SharePacked({values.data(), 3, 4, 4}, false);
  auto second = SharePacked({values.data(), 3, 4, 4}, false);
  first = nullptr;
  EXPECT_EQ(NumSharedWeights(), before + 1);
  second = nullptr;
  EXPECT_EQ(NumSharedWeights(), before);
}

TEST(SharedWeights, ManyThreadsAtOnce) {
  const size_t before = NumSharedWeights();
  const std::vector<float> values(16 * 16, 0.25f);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const auto packed = SharePacked({values.data(), 16, 16, 16}, round % 2 == 0);
        EXPECT_EQ(packed->depth(), 16);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(NumSharedWeights(), before);
}

}  // namespace
}  // namespace beamwright::ops
