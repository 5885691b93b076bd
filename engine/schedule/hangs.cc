#include "engine/schedule/hangs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/status/error_details.h"

namespace beamwright::engine {

absl::Status Hangs::Check(const DecodeModel& model, absl::Time now) const {
  if (num_records_.load(std::memory_order_relaxed) == 0) {
    return absl::OkStatus();
  }
  absl::MutexLock lock(&mutex_);
  const auto found = records_.find({model.name(), model.version()});
  if (found == records_.end() || now >= found->second.until) {
    return absl::OkStatus();
  }
  return status::WithRetryAfter(
      status::WithReason(absl::UnavailableError(
                             absl::StrCat("model '", model.name(), "' version ", model.version(),
                                          " does not come to an end and is out of service")),
                         status::reason::kQuarantined),
      found->second.until - now);
}

void Hangs::Observe(std::function<void(const DecodeModel&)> observer) {
  absl::MutexLock lock(&observer_mutex_);
  observer_ = std::move(observer);
}

bool Hangs::Count(const DecodeModel& model, int given_up, absl::Time now) {
  if (pause_ <= absl::ZeroDuration()) {
    return false;
  }
  {
    absl::MutexLock lock(&mutex_);
    Record& record = records_[{model.name(), model.version()}];
    num_records_.store(static_cast<int>(records_.size()), std::memory_order_relaxed);
    record.given_up = std::min(record.given_up + given_up, kGivenUp);
    if (record.given_up < kGivenUp) {
      return false;
    }
    record.until = now + pause_;
  }
  absl::MutexLock lock(&observer_mutex_);
  if (observer_ != nullptr) {
    observer_(model);
  }
  return true;
}

void Hangs::Forget(const DecodeModel& model) {
  absl::MutexLock lock(&mutex_);
  records_.erase({model.name(), model.version()});
  num_records_.store(static_cast<int>(records_.size()), std::memory_order_relaxed);
}

}  // namespace beamwright::engine
