// Open connections of the gRPC listener by descriptor and inode (connection_table.h says why gRPC
// need not be asked).
//
// 1. Enter: a new connection, if there is room for it in all and for its client. DropClosed first
//    removes entries whose descriptor has another inode by now, at most once in kShortestLook. If
//    the table is still full, CloseIdlest closes the connections that have been idle longest, first
//    those that never sent a request.
// 2. ListProgress: the bytes that gRPC has read from each connection, by the kernel's counters
//    (BytesRead: received minus still waiting). ListClosed and BeginWindow keep the bytes of
//    connections that ended during a window.
// 3. CutOff, CutOffClient, CutOffPeer: a connection is reset under its owner, who then finds it
//    broken. EndIfOpen works on a duplicate of the descriptor, so that the number cannot become
//    another connection in between.
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

// Between two looks through the table, which takes half a millisecond for 4096 connections: refused
// clients must not keep the listener busy with it.
constexpr std::chrono::milliseconds kShortestLook(10);
// From when on a connection counts as idle: one of which no request has come, from its beginning,
// for it may be kept busy by frames that ask for nothing; another one without any bytes.
constexpr std::chrono::milliseconds kUnprovenIsIdle(2'000);
constexpr int64_t kProvenIsIdleMs = 10'000;
// Connections closed in one look, so that it makes room for several.
constexpr size_t kClosedAtOnce = 16;

// Bytes that were read from the socket: those received minus those waiting; -1 if it is not TCP.
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

// Milliseconds since data was received or sent; -1 if it is not TCP.
int64_t QuietMs(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return -1;
  }
  return std::min(info.tcpi_last_data_recv, info.tcpi_last_data_sent);
}

// Ends a TCP connection under the owner of its descriptor, who finds it broken.
void Reset(int fd) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  connect(fd, &nobody, sizeof(nobody));
}

}  // namespace

bool ConnectionTable::Enter(int fd, const std::string& client, const std::string& peer) {
  struct stat file {};
  if (fstat(fd, &file) != 0) {
    return false;
  }
  absl::MutexLock lock(&mutex_);
  Leave(fd);  // the connection that had this number is closed
  if (!(HasRoom(fd) && HasRoomOf(client)) &&
      std::chrono::steady_clock::now() - looked_ >= kShortestLook) {
    DropClosed();
  }
  if (!HasRoomOf(client) || !(HasRoom(fd) || CloseIdlest())) {
    return false;
  }
  Entry& entry = entries_[fd];
  entry.device = file.st_dev;
  entry.inode = file.st_ino;
  entry.client = client;
  entry.peer = peer;
  entry.calls = calls_ == nullptr ? nullptr : calls_->Add(peer);
  if (limits_.max_per_client > 0 && !client.empty()) {
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
  int num_reset = 0;
  for (const auto& [fd, entry] : entries_) {
    const bool is_proven = entry.calls != nullptr && entry.calls->is_proven();
    num_reset += entry.client == client && !is_proven && EndIfOpen(fd, entry, End::kReset) ? 1 : 0;
  }
  return num_reset;
}

bool ConnectionTable::CutOff(const Progress::key_type& connection) {
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(connection.first);
  return entry != entries_.end() && entry->second.inode == connection.second &&
         EndIfOpen(connection.first, entry->second, End::kReset);
}

bool ConnectionTable::CutOffPeer(const std::string& peer) {
  absl::MutexLock lock(&mutex_);
  bool any = false;
  for (auto& [fd, entry] : entries_) {
    if (!peer.empty() && entry.peer == peer && !entry.is_reset &&
        EndIfOpen(fd, entry, End::kReset)) {
      entry.is_reset = true;
      any = true;
    }
  }
  return any;
}

bool ConnectionTable::EndIfOpen(int fd, const Entry& entry, End end) {
  // The descriptor may be closed and reused at any moment; the duplicate does not change.
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) {
    return false;
  }
  const bool is_open = IsOpen(own, entry);
  if (is_open && end == End::kReset) {
    Reset(own);
  } else if (is_open) {
    shutdown(own, SHUT_RDWR);
  }
  close(own);
  return is_open;
}

std::optional<int64_t> ConnectionTable::IdleMs(int fd, const Entry& entry) const {
  if (entry.is_leaving || entry.calls == nullptr || entry.calls->num_open > 0) {
    return std::nullopt;
  }
  if (!entry.calls->is_proven()) {
    const auto age = std::chrono::steady_clock::now() - entry.entered;
    constexpr int64_t kBeforeProven = int64_t{1} << 40;
    return age < kUnprovenIsIdle
               ? std::nullopt
               : std::optional(kBeforeProven +
                               std::chrono::duration_cast<std::chrono::milliseconds>(age).count());
  }
  const int64_t quiet = QuietMs(fd);
  return quiet < kProvenIsIdleMs ? std::nullopt : std::optional(quiet);
}

bool ConnectionTable::CloseIdlest() {
  if (std::chrono::steady_clock::now() - searched_ < kShortestLook) {
    return false;
  }
  std::vector<std::pair<int64_t, int>> idle;  // for how long, descriptor
  for (const auto& [fd, entry] : entries_) {
    if (const std::optional<int64_t> time = IdleMs(fd, entry)) {
      idle.emplace_back(*time, fd);
    }
  }
  std::sort(idle.rbegin(), idle.rend());
  idle.resize(std::min(idle.size(), kClosedAtOnce));
  bool any = false;
  for (const auto& [time, fd] : idle) {
    Entry& entry = entries_[fd];
    if (EndIfOpen(fd, entry, End::kShutDown)) {
      any = true;
      entry.is_leaving = true;
      ++num_leaving_;
    }
  }
  if (!any) {
    searched_ = std::chrono::steady_clock::now();
  }
  return any;
}

bool ConnectionTable::IsOpen(int fd, const Entry& entry) const {
  struct stat file {};
  return fstat(fd, &file) == 0 && file.st_dev == entry.device && file.st_ino == entry.inode;
}

bool ConnectionTable::HasRoom(int fd) const {
  return fd - num_leaving_ < limits_.max_files &&
         static_cast<int>(entries_.size()) - num_leaving_ < limits_.max_connections;
}

bool ConnectionTable::HasRoomOf(const std::string& client) const {
  const auto found = of_client_.find(client);
  return found == of_client_.end() || found->second < limits_.max_per_client;
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
  num_leaving_ -= entry->second.is_leaving ? 1 : 0;
  if (calls_ != nullptr) {
    calls_->Remove(entry->second.peer, entry->second.calls);
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
