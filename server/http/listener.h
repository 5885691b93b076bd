// Listener: an HTTP/1.1 listener that strangers may call (Boost.Asio and Beast). Its thread moves
// bytes and waits for no client: a connection that says nothing, drips or does not read costs a
// descriptor and a buffer. A request has to arrive, and an answer to leave, within a time limit as
// a whole. Handlers run on a bounded number of workers, and a bounded number of requests waits for
// one; requests beyond that are answered 503. Where there are too many connections, the one that
// has been quiet for longest makes room.
#ifndef BEAMWRIGHT_SERVER_HTTP_LISTENER_H_
#define BEAMWRIGHT_SERVER_HTTP_LISTENER_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ops/base/cpu.h"
#include "server/access/guard.h"
#include "server/http/listener_parts.h"
#include "server/http/request_reader.h"
#include "server/serving/memory_account.h"

namespace beamwright::serving {

class TaskThread;

}  // namespace beamwright::serving

namespace beamwright::http {

struct HttpRequest {
  std::string method;
  std::string path;  // unescaped, without query
  std::string body;
  // The value of a header, its name in any case; empty if absent.
  std::function<std::string(const char* name)> header;
  // True when the client has hung up.
  std::function<bool()> abandoned;
  // Names in the client's certificate, if the connection has one.
  std::vector<std::string> peers;
  // When it was there as a whole.
  absl::Time arrived;
};

class PendingReply;  // server/http/replies.h

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  // Set: the body is what this gives, piece by piece, until it returns false; each piece has the
  // transfer timeout for itself. It is called as handlers are and may wait; it is called again when
  // the piece before has left, and holds no thread meanwhile.
  // A piece that it leaves empty is not there yet: `later`'s bell rings when it is.
  std::function<bool(std::string& piece)> next_piece;
  // Set: the answer comes from there, and the headers above go with it.
  std::shared_ptr<PendingReply> later;
};

// Called on the listener's workers, at most `threads` at once; it may wait.
using Handler = std::function<HttpReply(const HttpRequest&)>;

struct TakenConnection;  // server/http/taken_connection.h
class Cors;              // server/http/cors.h

struct ListenerOptions {
  // "host:port", "[::]:port"; port 0 takes a free one.
  std::string address;
  int threads = 16;  // for handlers
  // Of these, how many take requests with large bodies, which keep a core busy.
  int large_threads = std::max(1, UsableCpus() / 2);
  int max_waiting = 256;  // requests for a thread
  size_t max_head_bytes = 64 << 10;
  size_t max_body_bytes = 4 << 20;
  std::vector<BodyLimit> body_limits;
  // What is taken in addition to GET and HEAD; the rest is refused with 405.
  bool takes_post = true;
  bool takes_options = false;
  // Pages that may call (Cors::Check); null: those of the request's own host. Must outlive the
  // listener.
  const Cors* cors = nullptr;
  // Refuses requests to a host that has another than a local name.
  bool has_local_name = false;
  // Answers are packed for clients that take it.
  bool compresses = true;
  // For a request to arrive, and for an answer to leave, each as a whole; of a body for each 4 MiB.
  absl::Duration transfer_timeout = absl::Seconds(10);
  // Until the next request of a connection.
  absl::Duration idle_timeout = absl::Seconds(30);
  ConnectionBounds bounds;
  // Where large bodies are read from their sockets, so that small requests of others need not wait
  // for the listener's thread; null: on that. Must outlive the listener.
  serving::TaskThread* bodies = nullptr;
  // Where bodies, what they unpack to, and answers that have not left are reserved; null: nowhere.
  // Must outlive the listener.
  serving::MemoryAccount* memory = nullptr;
  // Of a socket: what a client has not read yet.
  int send_buffer_bytes = 256 << 10;
  // Files that the listener keeps, so that it can still accept where the process has none left.
  int spare_files = 0;
  // Answers on the listener's own thread what must wait for no worker, and at once; nothing for
  // what is the handler's. May be null.
  std::function<std::optional<HttpReply>(const HttpRequest&)> at_once;
  // Set: takes each connection with the head of its first request, on the connection's executor;
  // there is no handler then. It may move from what it is given.
  std::function<void(TakenConnection&)> take;
  // Threads that move bytes; connections stay on one at a time.
  int io_threads = 1;
  // Called with every request that does not get as far as a handler, and why: what of it was
  // understood, its path empty if not even that was; TLS handshakes that take too long included. On
  // any thread; it must return at once. May be null.
  std::function<void(const HttpRequest& request, const absl::Status& why)> refused;
  // Speaks TLS, with the context as it is when a connection begins. Null: clear text. Must outlive
  // the listener.
  const access::TlsContext* tls = nullptr;
  std::string thread_name = "bw-http";
};

class Listener {
 public:
  // InvalidArgument for a malformed address; Unavailable if it can't be bound. The port is
  // shared with no other process.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(const ListenerOptions& options,
                                                         Handler handler);
  // Stops.
  ~Listener();

  // Where it listens, with the port that was chosen.
  const std::string& address() const { return address_; }
  int port() const { return port_; }
  int num_connections() const;

  // Each answer from now on says that it is the last of its connection: a client that calls on
  // finds no connection that Stop closes under its next request.
  void Leave();
  // Takes no connection any more and returns when every request under way is answered; a client
  // that does not read its answer then is let go soon. What is taken is not waited for, and gets no
  // thread any more.
  void Stop();

 private:
  class Impl;

  Listener();
  std::unique_ptr<Impl> impl_;
  std::string address_;
  int port_ = 0;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_LISTENER_H_
