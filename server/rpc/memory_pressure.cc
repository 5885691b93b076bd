#include "server/rpc/memory_pressure.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "ops/base/process_memory.h"

namespace beamwright::rpc {
namespace {

constexpr absl::Duration kMinute = absl::Minutes(1);
// A trim walks through all that is free.
constexpr absl::Duration kBetweenTrims = absl::Milliseconds(200);
// Of what models leave of the limit: what calls may hold. What arrives until the next look comes on
// top, a third of 512 MiB on a fast machine.
constexpr double kCallsShare = 0.4;

}  // namespace

bool MemoryPressure::IsHigh() {
  if (!has_limit()) {
    return false;
  }
  const absl::Time now = absl::Now();
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
    trimmed_ = absl::Now();
  }
  return held > most && ReadProcessMemory().held_bytes() > most;
}

}  // namespace beamwright::rpc
