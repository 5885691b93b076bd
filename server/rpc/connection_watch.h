// ConnectionWatch: resets connections that keep gRPC's threads or the process' memory to
// themselves.
//
// gRPC 1.51 reads from a socket for as long as there is something to read, on the threads that all
// calls share, and has no limit on frames that cost their sender nothing: streams that are opened
// and reset (CVE-2023-44487), floods of CONTINUATION, SETTINGS, PING, WINDOW_UPDATE and empty DATA
// frames. No handler runs meanwhile, so nothing that gRPC calls could notice. A separate thread
// does, by these signs:
//
// - It asks whether the server lives, over a connection within the process (a beat), one in 30 ms
//   while a client is connected and the process works. A beat that is late says that sockets are
//   not read. If no handler runs in half a second of CPU time either, the connection that was read
//   from most is in the way.
// - More calls wait for their handlers than the connected clients may have open, or a quarter more
//   are held (a call that was reset lives until its handler knows): gRPC reads streams that
//   are reset faster than it runs handlers, and queues without bound (call_counts.h).
// - Calls wait for their handlers and take many times what was read: their headers are references
//   to HPACK's table, each of which takes some hundred bytes until the call ends.
// - Much of a second was late, and far more was read than handlers were given.
// - Memory runs short (grpc_limits.h): gRPC holds messages that are not whole without bound.
//   Calls whose request has not come are refused then; connections are reset if that does not help.
//
// The kernel knows what was read from each connection (TCP_INFO), whether it is encrypted or not.
// Clients that keep to HTTP/2 and within the memory are not affected however much they send: bodies
// are subject to flow control, so their sockets run empty. Unix sockets are not watched.
#ifndef BEAMWRIGHT_SERVER_RPC_CONNECTION_WATCH_H_
#define BEAMWRIGHT_SERVER_RPC_CONNECTION_WATCH_H_

#include <grpcpp/server.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/rpc/acceptor.h"
#include "server/rpc/gate.h"
#include "server/rpc/grpc_limits.h"

namespace beamwright::rpc {

// The limits that clients get in SETTINGS.
struct ClientLimits {
  int max_streams = 0;            // calls that a connection may have open
  int64_t max_message_bytes = 0;  // of a request
};

class ConnectionWatch {
 public:
  // Server, acceptor and gate must outlive the watch. The gate knows what handlers were given;
  // memory_limit_bytes is what the kernel ends the process at (0: no limit).
  ConnectionWatch(grpc::Server& server, Acceptor& acceptor, const Gate& gate,
                  const ClientLimits& limits, int64_t memory_limit_bytes);
  ~ConnectionWatch();
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

 private:
  struct Beat;
  struct Reading;
  struct Window;

  void Run();
  // Waits; false if it is time to go.
  bool Pause(absl::Duration time);
  // The same, with an eye on memory.
  bool Wait(absl::Duration time);
  // Sets stub_, unless no file is left.
  void Connect();
  std::shared_ptr<Beat> StartBeat();
  // Whether the beat came in time.
  bool Waits(Beat& beat, absl::Duration time);
  // Whether what was read since may be bodies of requests: no more than arrived and than those on
  // their way may have, and read as fast as bodies are.
  bool MayBeBodies(const Reading& before, int64_t read) const;
  // Whether calls whose handlers wait take far more memory than their clients sent, and than calls
  // do: before a client acknowledges SETTINGS, gRPC takes 16 MiB of decoded headers for each call.
  bool Swells(const Reading& before, int64_t read) const;
  // By how many bytes memory grew since.
  static int64_t Grown(const Reading& before);
  bool CutOff(const Reading& before, int64_t least, const std::string& why);
  // After something was in the way for so long.
  void HoldOff(absl::Duration in_the_way);
  // While the beat is due: looks for who is in the way.
  void Search(Beat& beat, Window& window);
  // After a second: looks back if much of it was late, and begins another.
  void EndIfOver(Window& window);
  // Whether there are more calls than clients may have open.
  bool IsCrowded();
  // Then: looks for who sends them.
  void Thin();
  // While memory runs short: refuses calls, or looks for who sends.
  void Relieve();
  // Looks for who was in the way since then and gave handlers little.
  void LookBack(const Reading& begin);

  grpc::Server& server_;
  Acceptor& acceptor_;
  const Gate& gate_;
  const ClientLimits limits_;
  MemoryPressure pressure_;  // the thread's
  // Since when memory runs short; the thread's.
  absl::Time short_since_ = absl::InfiniteFuture();
  // And what was read then, or when it had last grown by much; the thread's.
  std::unique_ptr<Reading> while_short_;
  // What was read when memory came to be short, or at the last reset since then; the thread's.
  std::unique_ptr<Reading> since_short_;
  // When new connections were held off last, and for how long; the thread's.
  absl::Time held_off_ = absl::InfinitePast();
  absl::Duration hold_off_;
  // What a beat is made over; of `server_` to itself.
  std::shared_ptr<inference::GRPCInferenceService::Stub> stub_;
  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_CONNECTION_WATCH_H_
