// ListeningSockets: where connections for gRPC arrive. They are bound as gRPC binds its own, except
// that an address is never shared with another process.
#ifndef BEAMWRIGHT_SERVER_RPC_LISTENING_SOCKETS_H_
#define BEAMWRIGHT_SERVER_RPC_LISTENING_SOCKETS_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace beamwright::rpc {

class ListeningSockets {
 public:
  // "host:port", "[::1]:port", "unix:/path", "unix-abstract:name"; port 0 takes a free one. A
  // wildcard of either family stands for both, a name for all its addresses of which one at least
  // can be had. A socket's file that a crash has left is replaced, never that of a process that
  // listens. InvalidArgument for what is not an address, Unavailable if it can't be bound; the
  // message says which and why.
  static absl::StatusOr<ListeningSockets> Open(const std::string& address);

  ListeningSockets() = default;
  ~ListeningSockets() { Close(); }
  ListeningSockets(ListeningSockets&& other) noexcept { *this = std::move(other); }
  ListeningSockets& operator=(ListeningSockets&& other) noexcept;

  // Closes them and removes the file of a Unix socket unless another process has replaced it.
  void Close();

  // Non-blocking; empty when closed.
  absl::Span<const int> fds() const { return fds_; }
  // 0 for a Unix socket.
  int port() const { return port_; }

 private:
  // Errors have errno.
  absl::Status OpenUnix(const std::string& path, bool abstract);
  absl::Status OpenTcp(const std::string& host, int port);
  absl::Status OpenWildcard(int port);

  std::vector<int> fds_;
  int port_ = 0;
  std::string path_;  // of a Unix socket's file
  ino_t inode_ = 0;   // of that file
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_LISTENING_SOCKETS_H_
