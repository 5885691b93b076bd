#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "ops/base/memory.h"

namespace beamwright {
namespace {

TEST(ProcessMemoryTest, WhatIsTouchedIsHeld) {
  constexpr int64_t kBytes = 64 << 20;
  const ProcessMemory before = ReadProcessMemory();
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBytes);
  const ProcessMemory after = ReadProcessMemory();
  munmap(memory, kBytes);
  // The program itself is a file.
  EXPECT_GT(before.file_bytes, 0);
  EXPECT_GT(before.held_bytes(), 0);
  EXPECT_GE(after.held_bytes(), before.held_bytes() + kBytes * 9 / 10);
  EXPECT_GE(after.resident_bytes, before.resident_bytes + kBytes * 9 / 10);
}

}  // namespace
}  // namespace beamwright
