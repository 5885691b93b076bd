// 1. TransportOver: a client's socket, or TLS over it, behind one interface; which of the two it is
//    is known when it is compiled (kIsTls), so plain connections pay nothing for the other.
// 2. BindSocket: a listening socket on the first of the address's resolutions that can be bound,
//    for both versions of IP, with its port if the address left it open.
#include "server/http/transport.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "server/serving/settings.h"

namespace beamwright::http {
namespace {

using Socket = Transport::Socket;
using TlsSocket = Transport::TlsSocket;

// Stream: Socket or TlsSocket.
template <typename Stream>
class TransportOver final : public Transport {
 public:
  template <typename... More>
  explicit TransportOver(Socket socket, More&&... more)
      : stream_(std::move(socket), std::forward<More>(more)...) {}

  Socket& socket() override {
    if constexpr (kIsTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  SSL* tls() override {
    if constexpr (kIsTls) {
      return stream_.native_handle();
    } else {
      return nullptr;
    }
  }

  void Handshake(Done done) override {
    if constexpr (kIsTls) {
      stream_.async_handshake(
          boost::asio::ssl::stream_base::server,
          [done = std::move(done)](const boost::system::error_code& error) { done(error, 0); });
    } else {
      done({}, 0);
    }
  }

  void ReadSome(boost::asio::mutable_buffer into, Done done) override {
    stream_.async_read_some(into, std::move(done));
  }

  size_t ReadNow(boost::asio::mutable_buffer into, boost::system::error_code& error) override {
    if (!socket().non_blocking()) {
      socket().non_blocking(true, error);
    }
    return error ? 0 : stream_.read_some(into, error);
  }

  void Write(boost::asio::const_buffer bytes, Done done) override {
    boost::asio::async_write(stream_, bytes, std::move(done));
  }

  Socket* plain_stream() override {
    if constexpr (kIsTls) {
      return nullptr;
    } else {
      return &stream_;
    }
  }

  TlsSocket* tls_stream() override {
    if constexpr (kIsTls) {
      return &stream_;
    } else {
      return nullptr;
    }
  }

  void EndTls(Done done) override {
    if constexpr (kIsTls) {
      stream_.async_shutdown(
          [done = std::move(done)](const boost::system::error_code& error) { done(error, 0); });
    } else {
      done({}, 0);
    }
  }

 private:
  static constexpr bool kIsTls = std::is_same_v<Stream, TlsSocket>;

  Stream stream_;
};

}  // namespace

std::unique_ptr<Transport> Transport::Make(Socket socket, const std::shared_ptr<SSL_CTX>& tls) {
  if (tls == nullptr) {
    return std::make_unique<TransportOver<Socket>>(std::move(socket));
  }
  SSL_CTX_up_ref(tls.get());  // Asio's context gives it back
  boost::asio::ssl::context context(tls.get());
  return std::make_unique<TransportOver<TlsSocket>>(std::move(socket), context);
}

namespace {

constexpr int kBacklog = 512;

void Set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

// A listening socket; -1 with errno.
int Listen(const addrinfo& address) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, address.ai_protocol);
  if (fd < 0) {
    return -1;
  }
  Set(fd, SOL_SOCKET, SO_REUSEADDR, 1);  // also after a crash the port can be taken again
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);  // what is accepted inherits it
  if (address.ai_family == AF_INET6) {
    Set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (bind(fd, address.ai_addr, address.ai_addrlen) != 0 || listen(fd, kBacklog) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

int PortOf(int fd) {
  sockaddr_in6 address{};  // IPv4 has its port in the same place
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

}  // namespace

absl::StatusOr<BoundSocket> BindSocket(const std::string& address) {
  BW_ASSIGN_OR_RETURN(const serving::HostPort place, serving::ParseHostPort(address));
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(place.host.empty() ? nullptr : place.host.c_str(),
                                absl::StrCat(place.port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, [](addrinfo* each) {
    if (each != nullptr) freeaddrinfo(each);
  });
  std::string why = error == 0 ? "" : gai_strerror(error);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    BoundSocket bound;
    bound.fd = Listen(*each);
    if (bound.fd >= 0) {
      bound.port = PortOf(bound.fd);
      bound.address = serving::WithPort(address, bound.port);
      return bound;
    }
    why = std::strerror(errno);
  }
  return absl::UnavailableError(absl::StrCat("cannot listen on '", address, "': ", why));
}

}  // namespace beamwright::http
