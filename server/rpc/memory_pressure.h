// MemoryPressure: whether the process comes near the limit of its memory. gRPC holds what a call
// sends until the message is whole, and nothing in it bounds the sum.
#ifndef BEAMWRIGHT_SERVER_RPC_MEMORY_PRESSURE_H_
#define BEAMWRIGHT_SERVER_RPC_MEMORY_PRESSURE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace beamwright::rpc {

// For one thread.
class MemoryPressure {
 public:
  // limit_bytes: what the kernel ends the process at; 0 for none.
  explicit MemoryPressure(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  bool has_limit() const { return limit_bytes_ > 0; }
  // Whether calls hold more than two fifths of what models leave of the limit. Gives free memory
  // back to the kernel before it says so.
  bool IsHigh();
  // Gives free memory back to the kernel after callers have returned much of what they held:
  // `held_bytes` is what they hold now (MemoryAccount). malloc keeps it otherwise, for as long as
  // a small allocation lies behind it. Call it several times a second.
  void GiveBack(int64_t held_bytes);

 private:
  const int64_t limit_bytes_;
  // The least that was held in this minute and in the one before: that is not calls'.
  int64_t least_ = INT64_MAX;
  int64_t least_before_ = INT64_MAX;
  absl::Time minute_ = absl::InfinitePast();
  absl::Time trimmed_ = absl::InfinitePast();
  int64_t most_held_ = 0;  // by callers, since the last trim
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_MEMORY_PRESSURE_H_
