// ConnectionTable: which of the connections that gRPC was given are still open, and whether there
// is room for one more. gRPC owns their descriptors and does not report when it closes one. But a
// descriptor's number together with the inode of its socket shows it: the number is closed by now,
// or stands for something else. So nothing has to be done when a connection ends, and what counts
// as open is what gRPC really holds; the table looks when it is full, or asked.
//
// A duplicate of the descriptor that waits for the hangup would report it at once, but gRPC leaves
// it to close() to take a descriptor out of its epoll set, which a duplicate prevents. (One that is
// gone again at once, as CutOff's, harms nothing.)
#ifndef BEAMWRIGHT_SERVER_RPC_CONNECTION_TABLE_H_
#define BEAMWRIGHT_SERVER_RPC_CONNECTION_TABLE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/call_counts.h"

namespace beamwright::rpc {

struct ConnectionLimits {
  int max_connections = 0;
  // Of one client, by its address; 0: as many as there may be.
  int max_per_client = 0;
  // A descriptor of this number or above is one too many: the system gives the lowest that is free.
  int max_files = std::numeric_limits<int>::max();
};

// Thread-safe.
class ConnectionTable {
 public:
  // `calls` is what calls come of each connection, and must outlive the table; null: unknown.
  explicit ConnectionTable(const ConnectionLimits& limits, ConnectionCalls* calls = nullptr)
      : limits_(limits), calls_(calls) {}

  // Enters a connected socket of `client`, whose name is empty where it has none to be counted by;
  // `peer` is its ConnectionCalls::PeerOf. A full table closes idle connections for it: those
  // without an open call, first those of which no request has ever come, the longest idle first.
  // False if there is no room all the same.
  bool Enter(int fd, const std::string& client, const std::string& peer = "");
  // How many are open now.
  int CountOpen();
  // Whether any may be: true too while one that has ended was not looked at yet.
  bool HasAny();

  // Bytes that were read so far from each open TCP connection, by descriptor and inode.
  using Progress = absl::flat_hash_map<std::pair<int, ino_t>, int64_t>;
  Progress ListProgress();
  // What was read from connections that have ended, by client, since BeginWindow and as far as
  // ListProgress saw it: those who connect again and again.
  using ClientProgress = absl::flat_hash_map<std::string, int64_t>;
  ClientProgress ListClosed();
  void BeginWindow();
  // Resets what is open of the client, but for connections of which a request has come: behind one
  // address may be many clients. How many were.
  int CutOffClient(const std::string& client);
  // Resets an entry of ListProgress if it is still open. gRPC finds the connection broken and
  // closes it. False if it was closed before.
  bool CutOff(const Progress::key_type& connection);
  // The same for the connection of `peer` (ConnectionCalls::PeerOf). False also if it was reset so
  // before.
  bool CutOffPeer(const std::string& peer);

 private:
  struct Entry {
    dev_t device;
    ino_t inode;
    std::string client;
    std::string peer;
    std::shared_ptr<const ConnectionCalls::Counts> calls;  // null: unknown
    std::chrono::steady_clock::time_point entered = std::chrono::steady_clock::now();
    bool is_leaving = false;  // shut down for others, and not closed yet
    bool is_reset = false;    // by CutOffPeer, and not closed yet
    int64_t read = 0;         // when last looked
    int64_t read_before = 0;  // when the window began
  };
  // How a connection is ended while gRPC holds the descriptor.
  enum class End { kReset, kShutDown };
  bool EndIfOpen(int fd, const Entry& entry, End end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How long it has been idle, in milliseconds; nothing if it is in use, was until a moment ago, or
  // if its calls are unknown, as of a Unix socket.
  std::optional<int64_t> IdleMs(int fd, const Entry& entry) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether any was idle.
  bool CloseIdlest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOpen(int fd, const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom(int fd) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoomOf(const std::string& client) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ConnectionLimits limits_;
  ConnectionCalls* const calls_;
  absl::Mutex mutex_;
  absl::flat_hash_map<int, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by descriptor
  absl::flat_hash_map<std::string, int> of_client_ ABSL_GUARDED_BY(mutex_);
  ClientProgress closed_ ABSL_GUARDED_BY(mutex_);
  int num_leaving_ ABSL_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point looked_ ABSL_GUARDED_BY(mutex_);
  // For idle ones, without finding any.
  std::chrono::steady_clock::time_point searched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_CONNECTION_TABLE_H_
