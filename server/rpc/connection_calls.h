// ConnectionCalls: what calls come of each gRPC connection. A connection is its own client here:
// many clients may have one address behind a proxy, and one client many addresses, so what a
// connection does says more of it than where it comes from.
#ifndef BEAMWRIGHT_SERVER_RPC_CONNECTION_CALLS_H_
#define BEAMWRIGHT_SERVER_RPC_CONNECTION_CALLS_H_

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace beamwright::rpc {

// Thread-safe.
class ConnectionCalls {
 public:
  // Of one connection.
  struct Counts {
    std::atomic<int64_t> num_open{0};   // calls whose handlers have not ended
    std::atomic<int64_t> num_asked{0};  // calls whose request has come whole, of streams the first

    // Whether a request has come whole, which floods of frames never send.
    bool is_proven() const { return num_asked > 0; }
  };

  // The name that grpc::ServerContext::peer() has for a connection from there; empty for one that
  // has no address, as of a Unix socket.
  static std::string PeerOf(const sockaddr_storage& address);

  // A connection that was accepted; one of the same peer that is still here has ended. Null for an
  // empty name.
  std::shared_ptr<const Counts> Add(const std::string& peer);
  // It has ended.
  void Remove(const std::string& peer, const std::shared_ptr<const Counts>& counts);
  // Null for a connection that was not added.
  std::shared_ptr<Counts> Find(absl::string_view peer);

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Counts>> connections_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_CONNECTION_CALLS_H_
