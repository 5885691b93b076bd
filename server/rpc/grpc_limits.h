// Bounds that gRPC 1.51 has not: on connections before SETTINGS, on its callback threads, and on
// the process' memory.
#ifndef BEAMWRIGHT_SERVER_RPC_GRPC_LIMITS_H_
#define BEAMWRIGHT_SERVER_RPC_GRPC_LIMITS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace beamwright::rpc {

// Limits on a connection before its client acknowledges SETTINGS.
//
// gRPC 1.51 applies the limits of ServerBuilder once a client has acknowledged them, which a
// hostile client never does. Until then a connection has the defaults of a table in libgrpc:
// 16 MiB of decoded headers for each call, which 5 KB of one-byte HPACK references come to before
// any code of ours runs, and any number of calls. No setting reaches the table, so its entries are
// overwritten at the start.

struct EarlyLimits {
  uint32_t header_bytes = 0;  // of a call, as decoded; at most 16 MiB
  uint32_t streams = 0;
};

// Sets them for connections that are opened afterwards, of servers and of clients in the process,
// which hold themselves to them too until their peer sends its own. gRPC sends no setting that
// equals its default: each should differ from what the server is built with. Not thread-safe: to be
// called before the process has a connection. FailedPrecondition, and nothing is changed, if the
// gRPC that is loaded does not have the table of version 1.51; the system's error if its memory
// cannot be written.
absl::Status SetEarlyLimits(const EarlyLimits& limits);

// OneCallbackThread: keeps one of gRPC's two callback threads out of the way.
//
// gRPC runs callbacks, and polls sockets, on its pool of threads: two on machines of up to
// five cores, and there is no setting for fewer. Whichever polls hands polling on to the other one
// before it looks at what came, so each message wakes a thread that finds nothing to do: half of
// the CPU time of a small call (docs/benchmarks.md, 'Servers'). Handlers here never
// wait, so that one thread suffices; the other one is kept in a callback that does.

class OneCallbackThread {
 public:
  // Null where it would not help: on larger machines, with a version of gRPC whose threads were
  // never looked at, or if the process has one already. The server must outlive it.
  static std::unique_ptr<OneCallbackThread> Hold(grpc::Server& server);
  // Gives the thread back.
  ~OneCallbackThread();
  OneCallbackThread(const OneCallbackThread&) = delete;
  OneCallbackThread& operator=(const OneCallbackThread&) = delete;

 private:
  explicit OneCallbackThread(grpc::Server& server);

  grpc::ClientContext context_;
  grpc::health::v1::HealthCheckRequest request_;
  grpc::health::v1::HealthCheckResponse response_;
  absl::Notification give_back_;
  absl::Notification given_back_;
  std::unique_ptr<grpc::health::v1::Health::Stub> stub_;
};

// MemoryPressure: whether the process comes near the limit of its memory. gRPC holds what a call
// sends until the message is whole, and nothing in it bounds the sum.

// For one thread.
class MemoryPressure {
 public:
  // limit_bytes: what the kernel ends the process at; 0 for none.
  explicit MemoryPressure(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  bool has_limit() const { return limit_bytes_ > 0; }
  // Whether calls hold more than two fifths of what models leave of the limit. Gives free memory
  // back to the kernel before it says so.
  bool IsHigh();
  // Whether it was so high when asked last that the process may be gone before refused calls give
  // memory back.
  bool is_severe() const { return is_severe_; }
  // Gives free memory back to the kernel after callers have returned much of what they held:
  // `held_bytes` is what they hold now (MemoryAccount); or after malloc came to keep much for any
  // other reason, such as calls that gRPC held. It keeps free memory for as long as a small
  // allocation lies behind it. Call it several times a second.
  void GiveBack(int64_t held_bytes);

 private:
  const int64_t limit_bytes_;
  // The least that was held in this minute and in the one before: that is not calls'.
  int64_t least_ = INT64_MAX;
  int64_t least_before_ = INT64_MAX;
  absl::Time minute_ = absl::InfinitePast();
  absl::Time trimmed_ = absl::InfinitePast();
  bool is_severe_ = false;
  int64_t most_held_ = 0;  // by callers, since the last trim
  // What malloc held and had not given out after the last trim, or when first asked; the least that
  // was resident since then; and when that was looked at.
  int64_t slack_ = -1;
  int64_t least_resident_ = INT64_MAX;
  absl::Time looked_ = absl::InfinitePast();
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_GRPC_LIMITS_H_
