#include "server/rpc/memory_pressure.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/time/clock.h"

namespace beamwright::rpc {
namespace {

constexpr absl::Duration kMinute = absl::Minutes(1);
// A trim walks through all that is free.
constexpr absl::Duration kBetweenTrims = absl::Milliseconds(200);
// Of what models leave of the limit: what calls may hold. What arrives until the next look comes on
// top, a third of 512 MiB on a fast machine.
constexpr double kCallsShare = 0.4;

}  // namespace

int64_t HeldBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  int64_t shared = 0;
  return statm >> total >> resident >> shared ? (resident - shared) * sysconf(_SC_PAGESIZE) : 0;
}

bool MemoryPressure::IsHigh() {
  if (!has_limit()) {
    return false;
  }
  const absl::Time now = absl::Now();
  const int64_t held = HeldBytes();
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
  return held > most && HeldBytes() > most;
}

}  // namespace beamwright::rpc
