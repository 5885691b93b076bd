#include "server/rpc/connection_table.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace beamwright::rpc {
namespace {

// A full table of 4096 is looked through in half a millisecond: whoever is refused in a row must
// not make that all the listener does.
constexpr std::chrono::milliseconds kShortestLook(10);
// Who was cut off and connects again at once would be in the way again before it is noticed.
constexpr std::chrono::seconds kFirstRefusal(2);
constexpr std::chrono::seconds kLongestRefusal(60);
// Without being cut off; then the next refusal is short again.
constexpr std::chrono::seconds kForgiveness(60);

// What the kernel received for the socket less what waits there; -1 if it is not TCP.
int64_t BytesRead(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  int waiting = 0;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received) ||
      ioctl(fd, SIOCINQ, &waiting) != 0) {
    return -1;
  }
  return static_cast<int64_t>(info.tcpi_bytes_received) - waiting;
}

// Ends a TCP connection under whoever holds the descriptor: they find it broken.
void Reset(int fd) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  connect(fd, &nobody, sizeof(nobody));
}

}  // namespace

bool ConnectionTable::Enter(int fd, const std::string& client) {
  struct stat file {};
  if (fstat(fd, &file) != 0) {
    return false;
  }
  absl::MutexLock lock(&mutex_);
  Leave(fd);  // whatever had the number is closed
  if (const auto refusal = refusals_.find(client);
      refusal != refusals_.end() && std::chrono::steady_clock::now() < refusal->second.end) {
    return false;
  }
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

bool ConnectionTable::HasAny() {
  absl::MutexLock lock(&mutex_);
  return !entries_.empty();
}

ConnectionTable::Progress ConnectionTable::ListProgress() {
  absl::MutexLock lock(&mutex_);
  DropClosed();
  Progress progress;
  for (auto& [fd, entry] : entries_) {
    if (const int64_t bytes = BytesRead(fd); bytes >= 0) {
      progress.emplace(std::pair(fd, entry.inode), bytes);
      entry.read = bytes;
    }
  }
  return progress;
}

ConnectionTable::ClientProgress ConnectionTable::ListClosed() {
  absl::MutexLock lock(&mutex_);
  DropClosed();
  return closed_;
}

void ConnectionTable::BeginWindow() {
  absl::MutexLock lock(&mutex_);
  closed_.clear();
  for (auto& [fd, entry] : entries_) {
    entry.read_before = entry.read;
  }
}

int ConnectionTable::CutOffClient(const std::string& client) {
  absl::MutexLock lock(&mutex_);
  Refuse(client);
  int num_reset = 0;
  for (const auto& [fd, entry] : entries_) {
    num_reset += entry.client == client && ResetIfOpen(fd, entry) ? 1 : 0;
  }
  return num_reset;
}

bool ConnectionTable::CutOff(const Progress::key_type& connection) {
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(connection.first);
  if (entry == entries_.end() || entry->second.inode != connection.second ||
      !ResetIfOpen(connection.first, entry->second)) {
    return false;
  }
  Refuse(entry->second.client);
  return true;
}

bool ConnectionTable::ResetIfOpen(int fd, const Entry& entry) {
  // The number may stand for something else by now, or soon; the duplicate does not change.
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) {
    return false;
  }
  const bool is_open = IsOpen(own, entry);
  if (is_open) {
    Reset(own);
  }
  close(own);
  return is_open;
}

void ConnectionTable::Refuse(const std::string& client) {
  const auto now = std::chrono::steady_clock::now();
  absl::erase_if(refusals_,
                 [now](const auto& refusal) { return refusal.second.end + kForgiveness < now; });
  Refusal& refusal = refusals_[client];
  if (refusal.end > now) {
    return;  // several connections of one client
  }
  refusal.time = std::clamp(2 * refusal.time, kFirstRefusal, kLongestRefusal);
  refusal.end = now + refusal.time;
}

bool ConnectionTable::IsOpen(int fd, const Entry& entry) const {
  struct stat file {};
  return fstat(fd, &file) == 0 && file.st_dev == entry.device && file.st_ino == entry.inode;
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
  if (const int64_t read = entry->second.read - entry->second.read_before; read > 0) {
    closed_[entry->second.client] += read;
  }
  entries_.erase(entry);
}

void ConnectionTable::DropClosed() {
  std::vector<int> closed;
  for (const auto& [fd, entry] : entries_) {
    if (!IsOpen(fd, entry)) {
      closed.push_back(fd);
    }
  }
  for (const int fd : closed) {
    Leave(fd);
  }
  looked_ = std::chrono::steady_clock::now();
}

}  // namespace beamwright::rpc
