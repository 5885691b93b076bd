// Sockets of HTTP: listening ones, and a client's, in clear text or TLS behind one interface.
#ifndef BEAMWRIGHT_SERVER_HTTP_TRANSPORT_H_
#define BEAMWRIGHT_SERVER_HTTP_TRANSPORT_H_

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace boost::beast {

template <typename NextLayer>
class ssl_stream;

}  // namespace boost::beast

namespace beamwright::http {

// Transport: a client's socket as Asio reads and writes it, in clear text or TLS behind one
// interface, so that what is said on it is compiled once.
//
// Nothing waits: each call with `done` starts something and calls `done` when it has ended, on the
// executor of the socket, on which every such call is made, too. `done` keeps alive what it needs.

class Transport {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using TlsSocket = boost::beast::ssl_stream<Socket>;
  using Done = std::function<void(const boost::system::error_code&, size_t)>;

  // tls: null for clear text.
  static std::unique_ptr<Transport> Make(boost::asio::ip::tcp::socket socket,
                                         const std::shared_ptr<SSL_CTX>& tls);
  virtual ~Transport() = default;

  // Below TLS.
  virtual boost::asio::ip::tcp::socket& socket() = 0;
  // Null without TLS.
  virtual SSL* tls() = 0;
  // Of TLS, which comes first.
  virtual void Handshake(Done done) = 0;
  // What is there, at least a byte. One at a time, as all reads.
  virtual void ReadSome(boost::asio::mutable_buffer into, Done done) = 0;
  // The same at once, on any thread while nothing else happens on the transport: the error is
  // would_block where no byte is there.
  virtual size_t ReadNow(boost::asio::mutable_buffer into, boost::system::error_code& error) = 0;
  // All of it. One at a time.
  virtual void Write(boost::asio::const_buffer bytes, Done done) = 0;
  // What is below, to be moved from: one of them, the other is null.
  virtual Socket* plain_stream() = 0;
  virtual TlsSocket* tls_stream() = 0;
  // Says by TLS that nothing follows, and waits for the client to say so.
  virtual void EndTls(Done done) = 0;
};

// BindSocket: the listening sockets of HTTP.

struct BoundSocket {
  int fd = -1;          // it listens; the caller owns it
  int port = 0;         // that was chosen
  std::string address;  // with the port that was chosen
};

// "host:port", "[::]:port" (which takes IPv4 as well); port 0 takes a free one, a name the first of
// its addresses that can be had. The port is shared with no other process. InvalidArgument for what
// is not an address; Unavailable, with the address and why, if it can't be bound.
absl::StatusOr<BoundSocket> BindSocket(const std::string& address);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_TRANSPORT_H_
