#include "server/http/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/time/clock.h"

namespace beamwright::http {
namespace {

// How often a waiting thread looks whether it is needed elsewhere.
constexpr absl::Duration kSlice = absl::Milliseconds(100);
// A request that takes longer to arrive makes room when others wait.
constexpr absl::Duration kPatience = absl::Seconds(1);
// Beside a crowd. Who has waited for a thread has sent a request meanwhile.
constexpr absl::Duration kPatienceInACrowd = absl::Milliseconds(50);
// Of an upload, so that one that comes on is not given up for those that drip.
constexpr double kFairBytesPerSecond = 256 << 10;

void Describe(const sockaddr_storage& address, std::string& ip, int& port) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    port = ntohs(v4.sin_port);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    port = ntohs(v6.sin6_port);
  }
  ip = text;
}

}  // namespace

Connection::Connection(socket_t socket, const ConnectionLimits& limits, SSL_CTX* tls)
    : socket_(socket), limits_(limits), tls_(tls == nullptr ? nullptr : SSL_new(tls), SSL_free) {
  if (tls_ != nullptr) {
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
    SSL_set_fd(tls_.get(), socket);
  }
}

Connection::~Connection() {
  if (tls_ != nullptr && SSL_is_init_finished(tls_.get())) {
    SSL_shutdown(tls_.get());  // once, without waiting for the client's
    ERR_clear_error();
  }
}

bool Connection::Handshake() {
  if (tls_ == nullptr) {
    return true;
  }
  request_started_ = absl::Now();
  for (;;) {
    if (TlsResult(SSL_accept(tls_.get())) > 0) {
      return true;
    }
    if (errno != EAGAIN || Dawdles() ||
        !Wait(events_, request_started_ + limits_.transfer_timeout, /*patient=*/true)) {
      too_slow_ = errno == EAGAIN && !limits_.stopping();
      return false;
    }
  }
}

ssize_t Connection::TlsResult(int result) {
  if (result > 0) {
    return result;
  }
  const int error = SSL_get_error(tls_.get(), result);
  ERR_clear_error();
  events_ = error == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
  const bool later = error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ;
  errno = later ? EAGAIN : EPROTO;
  return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

ssize_t Connection::Receive(char* bytes, size_t size) {
  if (tls_ != nullptr) {
    return TlsResult(SSL_read(tls_.get(), bytes, static_cast<int>(size)));
  }
  events_ = POLLIN;
  return recv(socket_, bytes, size, MSG_DONTWAIT);
}

ssize_t Connection::Send(const char* bytes, size_t size) {
  if (tls_ != nullptr) {
    constexpr size_t kMost = 1 << 20;  // an int counts them
    return TlsResult(SSL_write(tls_.get(), bytes, static_cast<int>(std::min(size, kMost))));
  }
  events_ = POLLOUT;
  return send(socket_, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool Connection::Dawdles() const {
  const int waiting = limits_.waiting();
  if (waiting == 0) {
    return false;
  }
  // With TLS a client has to hear from us before it can go on.
  const bool is_short = waiting > limits_.crowd && tls_ == nullptr;
  const absl::Duration patience = is_short ? kPatienceInACrowd : kPatience;
  return absl::Now() - request_started_ >
         patience + absl::Seconds(static_cast<double>(bytes_read_) / kFairBytesPerSecond);
}

bool Connection::Wait(short events, absl::Time deadline, bool patient) const {
  for (;;) {
    const absl::Time now = absl::Now();
    const int waiting = limits_.waiting();
    const bool yield = patient ? Dawdles() : waiting > 0;
    const absl::Duration look = waiting > limits_.crowd ? kPatienceInACrowd : kSlice;
    const absl::Duration slice = yield || limits_.stopping()
                                     ? absl::ZeroDuration()
                                     : std::clamp(deadline - now, absl::ZeroDuration(), look);
    pollfd entry{socket_, events, 0};
    const int found =
        poll(&entry, 1,
             static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(slice, absl::Milliseconds(1)))));
    if (found > 0) {
      return true;
    }
    if (slice == absl::ZeroDuration() || (found < 0 && errno != EINTR)) {
      return false;
    }
  }
}

bool Connection::WaitForRequest() {
  answering_ = false;
  too_slow_ = false;
  bytes_read_ = 0;
  const bool ready =
      Buffered() || Wait(POLLIN, absl::Now() + limits_.idle_timeout, /*patient=*/false);
  request_started_ = absl::Now();
  return ready;
}

bool Connection::Abandoned() const {
  pollfd entry{socket_, POLLRDHUP, 0};
  return poll(&entry, 1, 0) > 0 && !Buffered();
}

bool Connection::Buffered() const {
  return begin_ < end_ || (tls_ != nullptr && SSL_pending(tls_.get()) > 0);
}

bool Connection::is_readable() const {
  pollfd entry{socket_, POLLIN, 0};
  return Buffered() || poll(&entry, 1, 0) > 0;
}

bool Connection::is_writable() const {
  pollfd entry{socket_, POLLOUT, 0};
  return poll(&entry, 1, 0) > 0;
}

ssize_t Connection::read(char* bytes, size_t size) {
  if (begin_ == end_) {
    const absl::Time deadline = request_started_ + limits_.transfer_timeout;
    ssize_t got = -1;
    while (got < 0) {
      too_slow_ = absl::Now() > deadline || Dawdles();
      if (bytes_read_ > limits_.max_request_bytes || too_slow_) {
        return -1;
      }
      got = Receive(buffer_.data(), buffer_.size());
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        return got;
      }
      if (got < 0 && !Wait(events_, deadline, /*patient=*/true)) {
        too_slow_ = !limits_.stopping();
        return -1;
      }
    }
    begin_ = 0;
    end_ = static_cast<size_t>(got);
    bytes_read_ += end_;
  }
  const size_t count = std::min(size, end_ - begin_);
  std::memcpy(bytes, buffer_.data() + begin_, count);
  begin_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t Connection::write(const char* bytes, size_t size) {
  if (!answering_) {
    answering_ = true;
    answer_deadline_ = absl::Now() + limits_.transfer_timeout;
  }
  for (;;) {
    const ssize_t sent = Send(bytes, size);
    if (sent >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      return sent;
    }
    pollfd entry{socket_, events_, 0};
    const absl::Duration left = answer_deadline_ - absl::Now();
    if (left <= absl::ZeroDuration() ||
        poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) == 0) {
      return -1;
    }
  }
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getpeername(socket_, reinterpret_cast<sockaddr*>(&address), &size);
  Describe(address, ip, port);
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
  Describe(address, ip, port);
}

}  // namespace beamwright::http
