#include "server/rpc/memory_pressure.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "ops/base/process_memory.h"
#include "ops/base/steady_time.h"

namespace beamwright::rpc {
namespace {

constexpr absl::Duration kMinute = absl::Minutes(1);
// A trim walks through all that is free.
constexpr absl::Duration kBetweenTrims = absl::Milliseconds(200);
// What is worth one where memory is not short, and the shortest time between two.
constexpr int64_t kWorthATrim = 64 << 20;
constexpr absl::Duration kBetweenIdleTrims = absl::Seconds(1);
// Of what models leave of the limit: what calls may hold. What arrives until the next look comes on
// top, a third of 512 MiB on a fast machine.
constexpr double kCallsShare = 0.4;

}  // namespace

bool MemoryPressure::IsHigh() {
  if (!has_limit()) {
    return false;
  }
  const absl::Time now = SteadyNow();
  const int64_t held = ReadProcessMemory().held_bytes();
  if (now - minute_ >= kMinute) {
    least_before_ = std::exchange(least_, held);
    minute_ = now;
  }
  least_ = std::min(least_, held);
  const int64_t least = std::min(least_, least_before_);
  const int64_t most =
      least + static_cast<int64_t>(kCallsShare * static_cast<double>(limit_bytes_ - least));
  if (held > most && now - trimmed_ >= kBetweenTrims) {
    malloc_trim(0);
    trimmed_ = SteadyNow();
  }
  return held > most && ReadProcessMemory().held_bytes() > most;
}

void MemoryPressure::GiveBack(int64_t held_bytes) {
  most_held_ = std::max(most_held_, held_bytes);
  const absl::Time now = SteadyNow();
  if (most_held_ - held_bytes < kWorthATrim || now - trimmed_ < kBetweenIdleTrims) {
    return;
  }
  malloc_trim(0);
  trimmed_ = SteadyNow();
  most_held_ = held_bytes;
}

}  // namespace beamwright::rpc
