// Connection: a client's socket as the HTTP library reads and writes it, with limits on time and
// size that the library does not have.
#ifndef BEAMWRIGHT_SERVER_HTTP_CONNECTION_H_
#define BEAMWRIGHT_SERVER_HTTP_CONNECTION_H_

#include <httplib.h>
#include <openssl/ssl.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace beamwright::http {

struct ConnectionLimits {
  size_t max_request_bytes = 0;  // head and body
  absl::Duration transfer_timeout;
  absl::Duration idle_timeout;
  // How many connections wait for a thread.
  std::function<int()> waiting;
  // That is a crowd: requests that do not come on at a fair pace make room sooner.
  int crowd = 1;
  // True when the listener stops.
  std::function<bool()> stopping;
};

// Used by one thread. Does not own the socket.
class Connection final : public httplib::Stream {
 public:
  // In clear text if `tls` is null. A connection with TLS makes its socket non-blocking.
  Connection(socket_t socket, const ConnectionLimits& limits, SSL_CTX* tls);
  ~Connection() override;

  // The TLS handshake, in the time that a request has; true at once without TLS.
  bool Handshake();
  // Null without TLS.
  const SSL* tls() const { return tls_.get(); }

  // Waits for the first byte of the next request; false if the connection is to be closed instead.
  bool WaitForRequest();
  // True when the client has hung up.
  bool Abandoned() const;
  // The present request has not arrived in its time, or made room for another connection.
  bool was_too_slow() const { return too_slow_; }
  // What is written from now on has its time from its first byte.
  void BeginPiece() { answering_ = false; }

  using Stream::write;
  bool is_readable() const override;
  bool is_writable() const override;
  // As recv and send, but each request, and each answer, has its time as a whole.
  ssize_t read(char* bytes, size_t size) override;
  ssize_t write(const char* bytes, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  // Whether another connection needs the thread and this request has had its fair time: a second,
  // little of it beside a crowd, and what its bytes so far take at a fair pace.
  bool Dawdles() const;
  // Waits for `events`; false when the time is over, the listener stops, or another connection
  // needs the thread (and, if `patient`, this request dawdles).
  bool Wait(short events, absl::Time deadline, bool patient) const;
  // As recv and send that do not block: -1 with EAGAIN for "later", -1 with another errno for an
  // error. With TLS `events_` is what to wait for then.
  ssize_t Receive(char* bytes, size_t size);
  ssize_t Send(const char* bytes, size_t size);
  ssize_t TlsResult(int result);
  // Something has been received that is not read yet.
  bool Buffered() const;

  const socket_t socket_;
  const ConnectionLimits& limits_;
  const std::unique_ptr<SSL, decltype(&SSL_free)> tls_;
  short events_ = 0;
  absl::Time request_started_ = absl::InfinitePast();
  absl::Time answer_deadline_ = absl::InfiniteFuture();
  bool answering_ = false;
  bool too_slow_ = false;
  size_t bytes_read_ = 0;  // of this request
  std::array<char, 4096> buffer_;
  size_t begin_ = 0;  // what of the buffer is not taken yet
  size_t end_ = 0;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_CONNECTION_H_
