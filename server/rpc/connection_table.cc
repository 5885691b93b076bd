#include "server/rpc/connection_table.h"

#include <sys/stat.h>

#include <utility>
#include <vector>

namespace beamwright::rpc {
namespace {

// A full table of 4096 is looked through in half a millisecond: whoever is refused in a row must
// not make that all the listener does.
constexpr std::chrono::milliseconds kShortestLook(10);

}  // namespace

bool ConnectionTable::Enter(int fd, const std::string& client) {
  struct stat file {};
  if (fstat(fd, &file) != 0) {
    return false;
  }
  absl::MutexLock lock(&mutex_);
  Leave(fd);  // whatever had the number is closed
  if (!HasRoom(client) && std::chrono::steady_clock::now() - looked_ >= kShortestLook) {
    DropClosed();
  }
  if (!HasRoom(client)) {
    return false;
  }
  entries_.emplace(fd, Entry{file.st_dev, file.st_ino, client});
  if (max_per_client_ > 0 && !client.empty()) {
    ++of_client_[client];
  }
  return true;
}

int ConnectionTable::CountOpen() {
  absl::MutexLock lock(&mutex_);
  DropClosed();
  return static_cast<int>(entries_.size());
}

bool ConnectionTable::HasRoom(const std::string& client) const {
  if (static_cast<int>(entries_.size()) >= max_connections_) {
    return false;
  }
  const auto found = of_client_.find(client);
  return found == of_client_.end() || found->second < max_per_client_;
}

void ConnectionTable::Leave(int fd) {
  const auto entry = entries_.find(fd);
  if (entry == entries_.end()) {
    return;
  }
  const auto of_client = of_client_.find(entry->second.client);
  if (of_client != of_client_.end() && --of_client->second == 0) {
    of_client_.erase(of_client);
  }
  entries_.erase(entry);
}

void ConnectionTable::DropClosed() {
  std::vector<int> closed;
  for (const auto& [fd, entry] : entries_) {
    struct stat file {};
    if (fstat(fd, &file) != 0 || file.st_dev != entry.device || file.st_ino != entry.inode) {
      closed.push_back(fd);
    }
  }
  for (const int fd : closed) {
    Leave(fd);
  }
  looked_ = std::chrono::steady_clock::now();
}

}  // namespace beamwright::rpc
