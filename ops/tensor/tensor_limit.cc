#include "ops/tensor/tensor_limit.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

thread_local int64_t limit = kMaxTensorBytes;
std::atomic<int64_t> held_bytes = 0;
std::atomic<int64_t> memory_limit = kNoLimit;

std::string Rounded(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  for (; unit < 3 && bytes != 0 && bytes % 1024 == 0; ++unit) {
    bytes /= 1024;
  }
  return absl::StrCat(bytes, " ", kUnits[unit]);
}

int64_t LeftBytes() {
  const int64_t most = memory_limit.load(std::memory_order_relaxed);
  return most == kNoLimit ? kNoLimit : std::max<int64_t>(most - HeldBytes(), 0);
}

}  // namespace

int64_t HeldBytes() { return held_bytes.load(std::memory_order_relaxed); }
void CountHeld(int64_t bytes) { held_bytes.fetch_add(bytes, std::memory_order_relaxed); }

int64_t MaxTensorBytes() { return std::min(limit, LeftBytes()); }

absl::Status TooLarge(absl::string_view what) {
  if (LeftBytes() < limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, " does not fit into memory: ", HeldBytes(), " bytes are held and ",
                     Rounded(memory_limit.load(std::memory_order_relaxed)), " are allowed"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(what, " is larger than ", Rounded(limit)));
}

MemoryLimit::MemoryLimit(int64_t bytes) { memory_limit = bytes; }

MemoryLimit::~MemoryLimit() { memory_limit = kNoLimit; }

TensorLimit::TensorLimit(int64_t bytes) : outside_(limit) { limit = std::min(limit, bytes); }

TensorLimit::~TensorLimit() { limit = outside_; }

}  // namespace beamwright::ops
