// How many calls there are: of each connection, read but not handled yet, and not come whole yet.
#ifndef BEAMWRIGHT_SERVER_RPC_CALL_COUNTS_H_
#define BEAMWRIGHT_SERVER_RPC_CALL_COUNTS_H_

#include <grpcpp/server_context.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace beamwright::rpc {

// ConnectionCalls: what calls come of each gRPC connection. A connection is its own client here:
// many clients may have one address behind a proxy, and one client many addresses, so what a
// connection does says more of it than where it comes from.

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

// CallBacklog: how many calls gRPC has read, and for how many of them no handler has run yet. gRPC
// reads calls faster than it runs handlers and queues them without bound.

// Thread-safe. Outlives the server that it counts for.
class CallBacklog {
 public:
  CallBacklog();
  ~CallBacklog();
  // For ServerBuilder::SetContextAllocator: gRPC makes a call's context when it has read its
  // headers.
  std::unique_ptr<grpc::ContextAllocator> MakeAllocator();
  // A handler of the call runs. `connection` is the account of the connection that it came over;
  // null: none.
  void Leave(grpc::CallbackServerContext& context,
             std::shared_ptr<ConnectionCalls::Counts> connection = nullptr);
  // The call's request has come.
  void CountAsked(grpc::CallbackServerContext& context);
  int64_t size() const { return size_; }
  // How many calls there are: those that wait and those whose handlers have not ended.
  int64_t num_calls() const { return num_calls_; }
  // How many calls handlers have seen so far.
  int64_t num_left() const { return num_left_; }

 private:
  class Account;
  class Allocator;
  class Context;
  // Null for a context that the allocator did not make, as in tests. Valid while the context is.
  Account* AccountOf(grpc::CallbackServerContext& context);

  std::atomic<int64_t> size_{0};
  std::atomic<int64_t> num_calls_{0};
  std::atomic<int64_t> num_left_{0};
  absl::Mutex mutex_;
  // Of calls of unknown methods, from whose context gRPC lets nothing derive.
  absl::flat_hash_map<grpc::CallbackServerContext*, std::unique_ptr<Account>> generic_
      ABSL_GUARDED_BY(mutex_);
};

// IncomingCalls: the calls whose request has not come whole yet. gRPC holds what came of it, and
// nothing bounds the sum over all calls.

// A call that waits for its request.
class IncomingCall {
 public:
  virtual ~IncomingCall() = default;
  // Ends the call, which is not incoming any more.
  virtual void Refuse(const absl::Status& status) = 0;
};

// Thread-safe. The one that takes a call out goes on with it: the request or the refusal,
// never both.
class IncomingCalls {
 public:
  void Add(IncomingCall& call);
  // Whether the call was still there.
  bool Take(IncomingCall& call);
  // Refuses the calls that came before `time`; returns how many. The others' requests may be on
  // their way whole.
  int RefuseOlderThan(absl::Time time, const absl::Status& status);
  // As Take, where the request of the call has come (`ok`); where its client went before that, the
  // call is refused and counted. True: it goes on.
  bool Arrived(IncomingCall& call, bool ok);
  int64_t num_given_up() const { return num_given_up_; }

 private:
  std::atomic<int64_t> num_given_up_{0};
  absl::Mutex mutex_;
  std::unordered_map<IncomingCall*, absl::Time> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_CALL_COUNTS_H_
