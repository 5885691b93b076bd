// MemoryAccount: the bytes that the process holds for callers outside the engine, whatever the
// listener: bodies of requests while they are read, requests in parsed form, frames that are not
// whole, answers that are not sent. One account for all listeners, because the kernel has one limit
// for all of them; what running sources hold is the engine's account (EngineOptions::max_bytes).
//
// A listener reserves bytes before it holds them, and refuses the call if that fails:
//
//     absl::StatusOr<MemoryAccount::Hold> hold = core.memory().Reserve(body_bytes);
//     if (!hold.ok()) { return Refuse(hold.status()); }
//     ...
//     if (!hold->Resize(parsed_bytes)) { ... }   // the form changed its size
//
// and keeps the Hold with the bytes: its destructor returns them. Reserve for a message what its
// parsed form takes, not what it has on the wire: a field of two bytes may take a hundred.
#ifndef BEAMWRIGHT_SERVER_SERVING_MEMORY_ACCOUNT_H_
#define BEAMWRIGHT_SERVER_SERVING_MEMORY_ACCOUNT_H_

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"

namespace beamwright::serving {

// Thread-safe. Outlives its holds.
class MemoryAccount {
 public:
  // A reservation below this, and growth up to it, may use the whole limit; a larger one leaves the
  // last quarter free. So large requests that fill the account do not stop small ones.
  static constexpr int64_t kSmallBytes = 64 << 10;

  // Bytes that are reserved. Returns them when it is destroyed. Movable; for one thread at a time.
  class Hold {
   public:
    Hold() = default;  // of no account; Resize to 0 alone
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&& other) noexcept;
    ~Hold() { Release(); }

    int64_t bytes() const { return bytes_; }
    // Makes it `bytes` in all. False, and as it was, if there is no room to grow.
    bool Resize(int64_t bytes);
    void Release();

   private:
    friend class MemoryAccount;
    explicit Hold(MemoryAccount& account) : account_(&account) {}

    MemoryAccount* account_ = nullptr;
    int64_t bytes_ = 0;
  };

  // limit_bytes: 0 for no limit.
  explicit MemoryAccount(int64_t limit_bytes = 0) : limit_bytes_(limit_bytes) {}
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // Holds that exceed a lower limit stay.
  void SetLimit(int64_t bytes) { limit_bytes_ = bytes; }
  int64_t limit_bytes() const { return limit_bytes_; }
  int64_t held_bytes() const { return held_bytes_; }

  // ResourceExhausted with the reason OUT_OF_MEMORY if there is no room: worth another try in a
  // second, unless `bytes` never fit.
  absl::StatusOr<Hold> Reserve(int64_t bytes);
  // A hold of no bytes, to be resized.
  Hold MakeHold() { return Hold(*this); }
  // What a call is refused with whose hold cannot be made `bytes`; the error of Reserve.
  absl::Status Refusal(int64_t bytes) const;

 private:
  // Whether a hold may grow from `before` to `after`; if so, counts it.
  bool Grow(int64_t before, int64_t after);

  std::atomic<int64_t> limit_bytes_;
  std::atomic<int64_t> held_bytes_{0};
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_MEMORY_ACCOUNT_H_
