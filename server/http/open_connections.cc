#include "server/http/open_connections.h"

#include <iterator>

#include "ops/base/steady_time.h"

namespace beamwright::http {

OpenConnections::Place OpenConnections::Enter(const std::weak_ptr<OpenConnection>& connection) {
  absl::MutexLock lock(&mutex_);
  quiet_.push_back({connection, SteadyNow(), &quiet_});
  return std::prev(quiet_.end());
}

void OpenConnections::Remove(Place place) {
  absl::MutexLock lock(&mutex_);
  place->list->erase(place);
}

void OpenConnections::Move(Place place, std::list<Entry>& to) {
  to.splice(to.end(), *place->list, place);
  place->list = &to;
}

void OpenConnections::SetQuiet(Place place) {
  absl::MutexLock lock(&mutex_);
  place->quiet_since = SteadyNow();
  Move(place, quiet_);
}

void OpenConnections::SetBusy(Place place) {
  absl::MutexLock lock(&mutex_);
  Move(place, busy_);
}

void OpenConnections::SetTaken(Place place) {
  absl::MutexLock lock(&mutex_);
  Move(place, taken_);
}

bool OpenConnections::IsFull() const {
  absl::MutexLock lock(&mutex_);
  return quiet_.empty() && NumStaying() >= bounds_.max_connections + bounds_.max_young;
}

std::shared_ptr<OpenConnection> OpenConnections::Excess() {
  absl::MutexLock lock(&mutex_);
  if (quiet_.empty() || NumStaying() <= bounds_.max_connections) {
    return nullptr;
  }
  const bool had_its_time = SteadyNow() - quiet_.front().quiet_since >= bounds_.grace;
  return had_its_time || NumStaying() > bounds_.max_connections + bounds_.max_young ? TakeIdlest()
                                                                                    : nullptr;
}

std::shared_ptr<OpenConnection> OpenConnections::Idlest() {
  absl::MutexLock lock(&mutex_);
  return TakeIdlest();
}

std::shared_ptr<OpenConnection> OpenConnections::TakeIdlest() {
  // One without a connection is about to be removed.
  while (!quiet_.empty()) {
    std::shared_ptr<OpenConnection> idlest = quiet_.front().connection.lock();
    Move(quiet_.begin(), leaving_);
    if (idlest != nullptr) {
      return idlest;
    }
  }
  return nullptr;
}

std::vector<std::shared_ptr<OpenConnection>> OpenConnections::All() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<OpenConnection>> all;
  for (const std::list<Entry>* list : {&quiet_, &busy_, &taken_, &leaving_}) {
    for (const Entry& entry : *list) {
      if (std::shared_ptr<OpenConnection> connection = entry.connection.lock()) {
        all.push_back(std::move(connection));
      }
    }
  }
  return all;
}

int OpenConnections::size() const {
  absl::MutexLock lock(&mutex_);
  return NumStaying() + static_cast<int>(leaving_.size());
}

void OpenConnections::WaitUntilNone() const {
  absl::MutexLock lock(&mutex_);
  const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return quiet_.empty() && busy_.empty() && leaving_.empty();
  };
  mutex_.Await(absl::Condition(&none));
}

}  // namespace beamwright::http
