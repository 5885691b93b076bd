// ConnectionWatch: resets connections that keep gRPC's threads to themselves.
//
// gRPC 1.51 reads from a socket for as long as there is something to read, on the threads that all
// calls share, and has no limit on frames that cost their sender nothing: streams that are opened
// and reset (CVE-2023-44487), floods of CONTINUATION, SETTINGS, PING, WINDOW_UPDATE and empty DATA
// frames. No handler runs meanwhile, so nothing that gRPC calls could notice.
//
// A thread of its own does. It asks whether the server lives over a connection within the
// process (a beat), one in 30 ms while anybody is connected. A beat that is late says that sockets
// are not read. If handlers are not given anything either, or less than what the process grows by,
// and the process is not short of CPU time, the connections that were read from most since then are
// the ones that are in the way. The kernel knows what was read from each (TCP_INFO), whether it is
// encrypted or not.
//
// Clients that keep to HTTP/2 are not affected however much they send: bodies are subject to flow
// control, so their sockets run empty, and messages that arrive count. Unix sockets are not
// watched.
#ifndef BEAMWRIGHT_SERVER_RPC_CONNECTION_WATCH_H_
#define BEAMWRIGHT_SERVER_RPC_CONNECTION_WATCH_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/rpc/acceptor.h"
#include "server/rpc/gate.h"

namespace beamwright::rpc {

class ConnectionWatch {
 public:
  // The arguments must outlive the watch. The gate knows what handlers were given,
  // max_streams is how many calls a connection may have open.
  ConnectionWatch(grpc::Server& server, Acceptor& acceptor, const Gate& gate, int max_streams);
  ~ConnectionWatch();
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

 private:
  struct Beat;
  struct Reading;

  void Run();
  // Waits; false if it is time to go.
  bool Pause(absl::Duration time);
  std::shared_ptr<Beat> StartBeat();
  // Whether the beat came in time.
  bool Waits(Beat& beat, absl::Duration time);
  bool CutOff(const Reading& before, int64_t least, const std::string& why);
  // While the beat is due: looks for who is in the way.
  void Search(Beat& beat);
  // Whether more calls wait for their handlers than clients may have open.
  bool IsCrowded();
  // Then: looks for who sends them.
  void Thin();
  // After a second of which much was late: looks for who was in the way and gave handlers little.
  void LookBack(const Reading& window);

  grpc::Server& server_;
  Acceptor& acceptor_;
  const Gate& gate_;
  const int max_streams_;
  // What a beat is made over; of `server_` to itself.
  std::shared_ptr<grpc::Channel> channel_;
  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_CONNECTION_WATCH_H_
