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
  // Whether it was so high when asked last that the process may be gone before refused calls give
  // memory back.
  bool is_severe() const { return is_severe_; }
  // Gives free memory back to the kernel after callers have returned much of what they held:
  // `held_bytes` is what they hold now (MemoryAccount); or after malloc came to keep much for any
  // other reason, such as calls that gRPC held. It keeps free memory for as long as a small
  // allocation lies behind it. Call it several times a second.
  void GiveBack(int64_t held_bytes);

 private:
  const int64_t limit_bytes_;
  // The least that was held in this minute and in the one before: that is not calls'.
  int64_t least_ = INT64_MAX;
  int64_t least_before_ = INT64_MAX;
  absl::Time minute_ = absl::InfinitePast();
  absl::Time trimmed_ = absl::InfinitePast();
  bool is_severe_ = false;
  int64_t most_held_ = 0;  // by callers, since the last trim
  // What malloc held and had not given out after the last trim, or when first asked; the least that
  // was resident since then; and when that was looked at.
  int64_t slack_ = -1;
  int64_t least_resident_ = INT64_MAX;
  absl::Time looked_ = absl::InfinitePast();
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_MEMORY_PRESSURE_H_
