#include "server/serving/quarantine.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/status/error_details.h"

namespace beamwright::serving {

absl::Status Quarantine::Check(const engine::DecodeModel& model, absl::Time now) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (records_.empty()) {
    return absl::OkStatus();
  }
  const auto found = records_.find({model.name(), model.version()});
  if (found == records_.end() || now >= found->second.until) {
    return absl::OkStatus();
  }
  return status::WithRetryAfter(
      status::WithReason(absl::UnavailableError(absl::StrCat(
                             "model '", model.name(), "' version ", model.version(),
                             found->second.hangs ? " does not come to an end"
                                                 : absl::StrCat(" failed ", found->second.failures,
                                                                " times in a row"),
                             " and is out of service")),
                         status::reason::kQuarantined),
      found->second.until - now);
}

absl::Time Quarantine::BackAt(const std::string& model, const std::string& version) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto found = records_.find({model, version});
  return found == records_.end() ? absl::InfinitePast() : found->second.until;
}

void Quarantine::Observe(std::function<void()> observer) {
  absl::MutexLock lock(&mutex_);
  observer_ = std::move(observer);
}

void Quarantine::Count(const engine::DecodeModel& model, int decoded, int failed, absl::Time now) {
  if (options_.failures == 0 || (decoded == 0 && failed == 0) ||
      !Record(model, decoded, failed, now)) {
    return;
  }
  TellObserver();
}

void Quarantine::TakeOut(const engine::DecodeModel& model, absl::Time now) {
  if (options_.failures == 0) {
    return;
  }
  spdlog::error("model {} version {} does not come to an end; it is out of service for {}",
                model.name(), model.version(), absl::FormatDuration(options_.pause));
  {
    absl::MutexLock lock(&mutex_);
    Failures& record = records_[{model.name(), model.version()}];
    record.failures = std::max(record.failures, options_.failures);
    record.hangs = true;
    record.until = now + options_.pause;
  }
  TellObserver();
}

void Quarantine::TellObserver() {
  std::function<void()> observer;
  {
    absl::ReaderMutexLock lock(&mutex_);
    observer = observer_;
  }
  // Without the lock: it will ask.
  if (observer != nullptr) {
    observer();
  }
}

bool Quarantine::Record(const engine::DecodeModel& model, int decoded, int failed, absl::Time now) {
  const Key key(model.name(), model.version());
  if (decoded > 0) {
    {
      absl::ReaderMutexLock lock(&mutex_);
      if (records_.empty()) {
        return false;  // as nearly always
      }
    }
    absl::MutexLock lock(&mutex_);
    const auto found = records_.find(key);
    const bool was_out = found != records_.end() && found->second.until > now;
    records_.erase(key);
    return was_out;
  }
  absl::MutexLock lock(&mutex_);
  Failures& record = records_[key];
  const bool was_good = record.failures < options_.failures;
  record.failures = std::min(record.failures, 1 << 20) + failed;
  if (record.failures < options_.failures) {
    return false;
  }
  record.until = now + options_.pause;
  if (was_good) {
    spdlog::error("model {} version {} failed {} times in a row; it is out of service for {}",
                  model.name(), model.version(), record.failures,
                  absl::FormatDuration(options_.pause));
  }
  return true;
}

}  // namespace beamwright::serving
