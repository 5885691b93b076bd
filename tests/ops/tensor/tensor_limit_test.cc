#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "ops/tensor/tensor.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {
namespace {

TEST(TensorLimit, IsTheLowestOfThoseAround) {
  EXPECT_EQ(MaxTensorBytes(), kMaxTensorBytes);
  {
    const TensorLimit outer(1 << 20);
    EXPECT_EQ(TooLarge("x").message(), "x is larger than 1 MiB");
    {
      const TensorLimit inner(1500);
      EXPECT_EQ(TooLarge("x").message(), "x is larger than 1500 bytes");
      const TensorLimit higher(1 << 30);
      EXPECT_EQ(MaxTensorBytes(), 1500);
    }
    EXPECT_EQ(MaxTensorBytes(), 1 << 20);
    int64_t elsewhere = 0;
    std::thread([&] { elsewhere = MaxTensorBytes(); }).join();
    EXPECT_EQ(elsewhere, kMaxTensorBytes);
  }
  EXPECT_EQ(TooLarge("x").message(), "x is larger than 8 GiB");
  EXPECT_EQ(TooLarge("x").code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace beamwright::ops
