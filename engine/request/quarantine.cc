// Takes a model out of service after faults: after `failures` sources in a row that failed by the
// model's fault (Count), or after runs that did not end in time (CountRuns). Requests are refused
// until the pause is over, or a source is decoded (Check); then the model is tried again, and one
// more failure renews the pause.
//
// Nearly always there is no record of any model, which is seen by one atomic number without the
// lock (num_records_). Observers are called without the lock of the records.
#include "engine/request/quarantine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/status/fault.h"

namespace beamwright::engine {
namespace {

constexpr char kHung[] = "does not come to an end";

std::string Failed(int failures) { return absl::StrCat("failed ", failures, " times in a row"); }

}  // namespace

absl::Status Quarantine::Check(const DecodeModel& model, absl::Time now) const {
  return Refusal(model, now, /*only_hung=*/false);
}

absl::Status Quarantine::CheckHung(const DecodeModel& model, absl::Time now) const {
  return Refusal(model, now, /*only_hung=*/true);
}

absl::Status Quarantine::Refusal(const DecodeModel& model, absl::Time now, bool only_hung) const {
  if (num_records_.load(std::memory_order_relaxed) == 0) {
    return absl::OkStatus();
  }
  absl::ReaderMutexLock lock(&mutex_);
  const auto found = records_.find({model.name(), model.version()});
  if (found == records_.end() || now >= found->second.until || (only_hung && !found->second.hung)) {
    return absl::OkStatus();
  }
  const Record& record = found->second;
  return status::WithRetryAfter(
      status::WithReason(
          absl::UnavailableError(absl::StrCat(
              "model '", model.name(), "' version ", model.version(), " ",
              record.hung ? kHung : Failed(record.failures), " and is out of service")),
          status::reason::kQuarantined),
      record.until - now);
}

absl::Time Quarantine::BackAt(const std::string& model, const std::string& version) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto found = records_.find({model, version});
  return found == records_.end() ? absl::InfinitePast() : found->second.until;
}

void Quarantine::Observe(Observer observer) {
  absl::MutexLock lock(&observer_mutex_);
  observer_ = std::move(observer);
}

void Quarantine::Count(const DecodeModel& model, int decoded, int failed, absl::Time now) {
  if (options_.failures == 0 || (decoded == 0 && failed == 0) ||
      (decoded > 0 && num_records_.load(std::memory_order_relaxed) == 0)) {  // nearly always
    return;
  }
  std::string why;
  {
    absl::MutexLock lock(&mutex_);
    if (decoded > 0) {
      const auto found = records_.find({model.name(), model.version()});
      const bool was_out = found != records_.end() && found->second.until > now;
      Forget(found);
      if (!was_out) {
        return;
      }
    } else {
      Record& record = RecordOf(model);
      const bool was_good = record.failures < options_.failures;
      record.failures = std::min(record.failures, 1 << 20) + failed;
      if (record.failures < options_.failures) {
        return;
      }
      record.until = now + options_.pause;
      why = was_good ? Failed(record.failures) : "";
    }
  }
  Tell(model, why);
}

bool Quarantine::CountRuns(const DecodeModel& model, int given_up, absl::Time now) {
  if (options_.failures == 0) {
    return false;
  }
  {
    absl::MutexLock lock(&mutex_);
    Record& record = RecordOf(model);
    record.given_up = std::min(record.given_up + given_up, kGivenUp);
    if (record.given_up < kGivenUp) {
      return false;
    }
    record.failures = std::max(record.failures, options_.failures);  // one more renews the pause
    record.hung = true;
    record.until = now + options_.pause;
  }
  Tell(model, kHung);
  return true;
}

void Quarantine::EndHang(const DecodeModel& model) {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = records_.find({model.name(), model.version()});
    if (found == records_.end()) {
      return;
    }
    const bool was_hung = found->second.hung;
    found->second.given_up = 0;
    if (was_hung || found->second.failures == 0) {
      Forget(found);
    }
    if (!was_hung) {
      return;
    }
  }
  Tell(model, "");
}

Quarantine::Record& Quarantine::RecordOf(const DecodeModel& model) {
  Record& record = records_[{model.name(), model.version()}];
  num_records_.store(static_cast<int>(records_.size()), std::memory_order_relaxed);
  return record;
}

void Quarantine::Forget(std::map<Key, Record>::iterator record) {
  if (record != records_.end()) {
    records_.erase(record);
  }
  num_records_.store(static_cast<int>(records_.size()), std::memory_order_relaxed);
}

void Quarantine::Tell(const DecodeModel& model, const std::string& why) {
  absl::MutexLock lock(&observer_mutex_);
  if (observer_ != nullptr) {
    observer_(model, why);
  }
}

}  // namespace beamwright::engine
