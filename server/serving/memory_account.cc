#include "server/serving/memory_account.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/status/fault.h"
#include "server/serving/serving_state.h"

namespace beamwright::serving {
namespace {

// The part of the limit that large holds may use.
int64_t LimitOfLarge(int64_t limit_bytes) { return limit_bytes - limit_bytes / 4; }

}  // namespace

MemoryAccount::Hold::Hold(Hold&& other) noexcept
    : account_(std::exchange(other.account_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryAccount::Hold& MemoryAccount::Hold::operator=(Hold&& other) noexcept {
  if (this != &other) {
    Release();
    account_ = std::exchange(other.account_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

bool MemoryAccount::Hold::Resize(int64_t bytes) {
  if (account_ == nullptr) {
    return bytes == 0;
  }
  if (bytes > bytes_ && !account_->Grow(bytes_, bytes)) {
    return false;
  }
  if (bytes < bytes_) {
    account_->held_bytes_ -= bytes_ - bytes;
  }
  bytes_ = bytes;
  return true;
}

void MemoryAccount::Hold::Release() { Resize(0); }

absl::StatusOr<MemoryAccount::Hold> MemoryAccount::Reserve(int64_t bytes) {
  Hold hold(*this);
  if (hold.Resize(bytes)) {
    return hold;
  }
  return Refusal(bytes);
}

absl::Status MemoryAccount::Refusal(int64_t bytes) const {
  const int64_t most = LimitOfLarge(limit_bytes_);
  if (bytes <= most || bytes <= kSmallBytes) {
    return MemoryRunsShort();
  }
  return status::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                "the request needs ", bytes, " bytes of memory, more than the ",
                                most, " that one call may hold; split the request")),
                            status::reason::kOutOfMemory);
}

bool MemoryAccount::Grow(int64_t before, int64_t after) {
  const int64_t limit = limit_bytes_;
  const int64_t most = limit == 0 ? INT64_MAX : after <= kSmallBytes ? limit : LimitOfLarge(limit);
  const int64_t more = after - before;
  for (int64_t held = held_bytes_; held <= most - more;) {
    if (held_bytes_.compare_exchange_weak(held, held + more)) {
      return true;
    }
  }
  return false;
}

}  // namespace beamwright::serving
