#include "server/serving/served_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/status/fault.h"

namespace beamwright::serving {

ServedModel::ServedModel(ModelPtr model)
    : head_{model->name(), model->version(), {}}, pinned_(std::move(model)) {}

ServedModel::ServedModel(bundle::BundleHead head, bundle::VersionFolder folder, int64_t bytes)
    : head_(std::move(head)), folder_(std::move(folder)), bytes_(bytes) {}

ModelPtr ServedModel::model() const {
  if (pinned_ != nullptr) {
    return pinned_;
  }
  absl::MutexLock lock(&mutex_);
  return model_;
}

ModelPtr ServedModel::Use(uint64_t number) const {
  if (pinned_ != nullptr) {
    return pinned_;
  }
  absl::MutexLock lock(&mutex_);
  last_use_ = std::max(last_use_, number);
  return model_;
}

absl::Status ServedModel::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

absl::Status ServedModel::CheckPause(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  if (failure_.ok() || now >= retry_) {
    return absl::OkStatus();
  }
  return status::WithRetryAfter(
      status::WithReason(
          absl::UnavailableError(absl::StrCat("model '", name(), "' version ", version(),
                                              " could not be loaded; the server's log has the "
                                              "reason")),
          status::reason::kQuarantined),
      retry_ - now);
}

void ServedModel::Put(ModelPtr model) {
  absl::MutexLock lock(&mutex_);
  model_ = std::move(model);
  failure_ = absl::OkStatus();
}

void ServedModel::Fail(absl::Status why, absl::Time until) {
  absl::MutexLock lock(&mutex_);
  failure_ = std::move(why);
  retry_ = until;
}

bool ServedModel::Evict() {
  ModelPtr leaves;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  if (model_ == nullptr || HasCalls()) {
    return false;
  }
  leaves.swap(model_);
  return true;
}

uint64_t ServedModel::last_use() const {
  absl::MutexLock lock(&mutex_);
  return last_use_;
}

bool ServedModel::in_use() const {
  absl::MutexLock lock(&mutex_);
  return HasCalls();
}

std::optional<std::vector<size_t>> ChooseVictims(absl::Span<const Resident> residents,
                                                 int64_t bytes) {
  std::vector<size_t> idle;
  for (size_t i = 0; i < residents.size(); ++i) {
    if (!residents[i].in_use) {
      idle.push_back(i);
    }
  }
  std::sort(idle.begin(), idle.end(),
            [&](size_t a, size_t b) { return residents[a].last_use < residents[b].last_use; });
  size_t count = 0;
  while (bytes > 0 && count < idle.size()) {
    bytes -= residents[idle[count++]].bytes;
  }
  if (bytes > 0) {
    return std::nullopt;
  }
  idle.resize(count);
  return idle;
}

}  // namespace beamwright::serving
