// ConnectionTable: which of the connections that gRPC was given are still open, and whether there
// is room for one more. gRPC owns their descriptors and tells nobody when it closes one. But a
// descriptor's number together with the inode of its socket tells: the number is closed by now, or
// stands for something else. So nothing has to be done when a connection ends, and what counts as
// open is what gRPC really holds; the table looks when it is full, or asked.
//
// A duplicate of the descriptor that waits for the hangup would tell at once, but gRPC leaves it to
// close() to take a descriptor out of its epoll set, which a duplicate prevents. (One that is gone
// again at once, as CutOff's, harms nothing.)
#ifndef BEAMWRIGHT_SERVER_RPC_CONNECTION_TABLE_H_
#define BEAMWRIGHT_SERVER_RPC_CONNECTION_TABLE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace beamwright::rpc {

// Thread-safe.
class ConnectionTable {
 public:
  // `max_per_client` of one client, by its address; 0: as many as there may be.
  ConnectionTable(int max_connections, int max_per_client)
      : max_connections_(max_connections), max_per_client_(max_per_client) {}

  // Enters a connected socket of `client`, whose name is empty where it has none to be counted by.
  // False if there is no room.
  bool Enter(int fd, const std::string& client);
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
  // Refuses the client as CutOff does, and resets what is open of it. How many were.
  int CutOffClient(const std::string& client);
  // Resets an entry of ListProgress if it is still open, and refuses its client for two seconds;
  // for twice as long each time that it happens again within a minute, a minute at most. gRPC finds
  // the connection broken and closes it. False if it was closed before.
  bool CutOff(const Progress::key_type& connection);

 private:
  struct Entry {
    dev_t device;
    ino_t inode;
    std::string client;
    int64_t read = 0;         // when last looked
    int64_t read_before = 0;  // when the window began
  };
  // Of a client that was cut off.
  struct Refusal {
    std::chrono::steady_clock::time_point end;
    std::chrono::seconds time{0};
  };
  void Refuse(const std::string& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ResetIfOpen(int fd, const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOpen(int fd, const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom(const std::string& client) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int max_connections_;
  const int max_per_client_;
  absl::Mutex mutex_;
  absl::flat_hash_map<int, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by descriptor
  absl::flat_hash_map<std::string, int> of_client_ ABSL_GUARDED_BY(mutex_);
  ClientProgress closed_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Refusal> refusals_ ABSL_GUARDED_BY(mutex_);  // by client
  std::chrono::steady_clock::time_point looked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_CONNECTION_TABLE_H_
