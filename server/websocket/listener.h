// Listener: where clients of sherpa-onnx's online WebSocket server, and pages in browsers, send
// sound. Its few threads move messages and compute features of sound; they never block, so that
// a client costs no thread, however many there are and whatever they do.
#ifndef BEAMWRIGHT_SERVER_WEBSOCKET_LISTENER_H_
#define BEAMWRIGHT_SERVER_WEBSOCKET_LISTENER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/access.h"
#include "server/access/guard.h"
#include "server/http/cors.h"
#include "server/serving/core.h"

namespace beamwright::websocket {

struct ListenerOptions {
  // "host:port", "[::]:port"; port 0 takes a free one.
  std::string address;
  // Further connections get 503 at once.
  int max_connections = 4096;
  // For clients that name no model; empty: the only one that hears sound.
  std::string default_model;
  // For a request to arrive, an answer to leave and a client to close, each as a whole.
  absl::Duration transfer_timeout = absl::Seconds(10);
  // A client that says nothing for so long is asked whether it is there, and let go when it does
  // not answer in that time.
  absl::Duration quiet_time = absl::Seconds(30);
  // Null: clear text. Must outlive the listener.
  const access::TlsContext* tls = nullptr;
};

// Thread-safe.
class Listener {
 public:
  // InvalidArgument for a malformed address; Unavailable if it can't be bound. Core, access and
  // cors must outlive it.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(const ListenerOptions& options,
                                                         serving::Core& core,
                                                         const access::Access& access,
                                                         const http::Cors& cors);
  // Stops.
  ~Listener();

  // Where it listens, with the port that was chosen.
  const std::string& address() const;
  int port() const;
  int num_connections() const;

  // Connections end once the source under way is answered, or at once without one. Until Stop
  // new connections get the error that the server stops.
  void Leave();
  // Takes no connection any more; gives those there are a moment to end in order.
  void Stop();

 private:
  class Impl;

  explicit Listener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace beamwright::websocket

#endif  // BEAMWRIGHT_SERVER_WEBSOCKET_LISTENER_H_
