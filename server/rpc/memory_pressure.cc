#include "server/rpc/memory_pressure.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "ops/base/memory.h"
#include "ops/base/steady_time.h"

namespace beamwright::rpc {
namespace {

constexpr absl::Duration kMinute = absl::Minutes(1);
// A trim walks through all that is free.
constexpr absl::Duration kBetweenTrims = absl::Milliseconds(200);
// What is worth one where memory is not short, and the shortest time between two.
constexpr int64_t kWorthATrim = 64 << 20;
constexpr absl::Duration kBetweenIdleTrims = absl::Seconds(1);
// Between two looks at what malloc keeps, which take its locks.
constexpr absl::Duration kBetweenHeapLooks = absl::Seconds(2);
// Of what models leave of the limit: what calls may hold. What arrives until the next look comes on
// top, a third of 512 MiB on a fast machine.
constexpr double kCallsShare = 0.4;
// Large requests by the hundred come to 0.6 at times.
constexpr double kSevereShare = 0.8;

// Resident bytes that are no file's and that malloc has not given out: it keeps them, but for
// stacks and the like, which do not change by much.
int64_t Slack(int64_t resident) {
  const struct mallinfo2 heap = mallinfo2();
  return resident - static_cast<int64_t>(heap.uordblks + heap.hblkhd);
}

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
  const int64_t kept = held > most ? ReadProcessMemory().held_bytes() : held;
  is_severe_ =
      static_cast<double>(kept - least) > kSevereShare * static_cast<double>(limit_bytes_ - least);
  return kept > most;
}

void MemoryPressure::GiveBack(int64_t held_bytes) {
  most_held_ = std::max(most_held_, held_bytes);
  const absl::Time now = SteadyNow();
  bool is_worth = most_held_ - held_bytes >= kWorthATrim;
  if (!is_worth && now - looked_ >= kBetweenHeapLooks) {
    looked_ = now;
    const int64_t resident = ReadProcessMemory().held_bytes();
    least_resident_ = std::min(least_resident_, resident);
    if (slack_ < 0) {
      slack_ = Slack(resident);
    }
    is_worth = resident - least_resident_ >= kWorthATrim && Slack(resident) - slack_ >= kWorthATrim;
  }
  if (!is_worth || now - trimmed_ < kBetweenIdleTrims) {
    return;
  }
  malloc_trim(0);
  trimmed_ = SteadyNow();
  most_held_ = held_bytes;
  slack_ = Slack(ReadProcessMemory().held_bytes());
}

}  // namespace beamwright::rpc
