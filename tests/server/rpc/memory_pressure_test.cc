#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "ops/base/memory.h"
#include "server/rpc/grpc_limits.h"
#include "tests/e2e/becomes.h"

namespace beamwright::rpc {
namespace {

// Small blocks that stay behind large ones which are freed: malloc keeps the large ones.
TEST(MemoryPressureTest, WhatCallersReturnedGoesBackToTheKernel) {
  constexpr int kBlocks = 1500;
  constexpr size_t kBlockBytes = 100 << 10;
  constexpr int64_t kBytes = kBlocks * int64_t{kBlockBytes};
  MemoryPressure pressure(0);
  std::vector<std::unique_ptr<char[]>> blocks;
  std::vector<std::unique_ptr<char[]>> pins;
  for (int i = 0; i < kBlocks; ++i) {
    blocks.emplace_back(new char[kBlockBytes]);
    std::memset(blocks.back().get(), 1, kBlockBytes);
    pins.emplace_back(new char[5000]);
  }
  pressure.GiveBack(kBytes);
  const int64_t held = ReadProcessMemory().held_bytes();
  blocks.clear();
  EXPECT_GT(ReadProcessMemory().held_bytes(), held - kBytes / 4);  // else this shows nothing
  pressure.GiveBack(0);
  EXPECT_LT(ReadProcessMemory().held_bytes(), held - kBytes / 2);
}

// The same of memory that is in no account, as that of gRPC's calls.
TEST(MemoryPressureTest, WhatMallocKeepsGoesBackToTheKernel) {
  constexpr int kBlocks = 1500;
  constexpr size_t kBlockBytes = 100 << 10;
  MemoryPressure pressure(0);
  pressure.GiveBack(0);
  std::vector<std::unique_ptr<char[]>> blocks;
  std::vector<std::unique_ptr<char[]>> pins;
  for (int i = 0; i < kBlocks; ++i) {
    blocks.emplace_back(new char[kBlockBytes]);
    std::memset(blocks.back().get(), 1, kBlockBytes);
    pins.emplace_back(new char[5000]);
  }
  const int64_t held = ReadProcessMemory().held_bytes();
  blocks.clear();
  EXPECT_TRUE(e2e::Becomes([&] {
    pressure.GiveBack(0);
    return ReadProcessMemory().held_bytes() < held - kBlocks * int64_t{kBlockBytes} / 2;
  }));
}

}  // namespace
}  // namespace beamwright::rpc
