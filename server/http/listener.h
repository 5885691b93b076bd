// Listener: an HTTP/1.1 listener that strangers may call. A bounded number of connections is served
// at once and a bounded number waits; what is more is told 503 at once. A request has to arrive
// within a time limit as a whole, so that a slow client holds a thread no longer than that; while
// others wait, a client that dawdles is let go even earlier, and an idle connection at once.
#ifndef BEAMWRIGHT_SERVER_HTTP_LISTENER_H_
#define BEAMWRIGHT_SERVER_HTTP_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/tls.h"

namespace beamwright::http {

struct HttpRequest {
  std::string method;
  std::string path;  // unescaped, without query
  std::string body;
  // The value of a header, its name in any case; empty if there is none.
  std::function<std::string(const char* name)> header;
  // True when the client has hung up.
  std::function<bool()> abandoned;
  // Names in the client's certificate, if the connection has one.
  std::vector<std::string> peers;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  // Set: the body is what this gives, piece by piece, until it returns false; each piece has the
  // transfer timeout for itself. It is called on the thread of the handler and may wait.
  std::function<bool(std::string& piece)> next_piece;
};

// Called on the listener's threads, at most `threads` at once; it may wait.
using Handler = std::function<HttpReply(const HttpRequest&)>;

struct ListenerOptions {
  // "host:port", "[::]:port"; port 0 takes a free one.
  std::string address;
  int threads = 16;
  int max_waiting = 256;  // connections
  size_t max_body_bytes = 4 << 20;
  // OPTIONS reaches the handler, too; else it is refused with 405.
  bool takes_options = false;
  // For a request to arrive, and for an answer to leave, each as a whole.
  absl::Duration transfer_timeout = absl::Seconds(10);
  // Until the next request of a connection.
  absl::Duration idle_timeout = absl::Seconds(30);
  // Told of every request that does not get as far as the handler, and why: what of it was
  // understood, its path empty if not even that was; TLS handshakes that take too long included. On
  // any thread; it must return at once. May be null.
  std::function<void(const HttpRequest& request, const absl::Status& why)> refused;
  // Speaks TLS, with the context as it is when a connection begins. Null: clear text. Must outlive
  // the listener.
  const access::TlsContext* tls = nullptr;
};

class Listener {
 public:
  // InvalidArgument for an address that is none; Unavailable if it can't be bound. The port is
  // shared with no other process.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(const ListenerOptions& options,
                                                         Handler handler);
  // Stops.
  ~Listener();

  // Where it listens, with the port that was chosen.
  const std::string& address() const { return address_; }
  int port() const { return port_; }

  // Takes no connection any more and returns when every request under way is answered.
  void Stop();

 private:
  class Impl;

  Listener() = default;
  std::unique_ptr<Impl> impl_;
  std::string address_;
  int port_ = 0;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_LISTENER_H_
