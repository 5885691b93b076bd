// Sockets of clients, for tests of what listens.
#ifndef BEAMWRIGHT_TESTS_SERVER_RPC_SOCKETS_H_
#define BEAMWRIGHT_TESTS_SERVER_RPC_SOCKETS_H_

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

namespace beamwright::rpc {

class ClientSocket {
 public:
  explicit ClientSocket(int family = AF_INET)
      : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~ClientSocket() { Close(); }
  ClientSocket(ClientSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ClientSocket& operator=(ClientSocket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  // From `own`, an address of this machine, where it is given.
  bool ConnectV4(int port, const char* host = "127.0.0.1", const char* own = nullptr) const {
    if (own != nullptr) {
      const sockaddr_in from = V4(own, 0);
      if (bind(fd_, reinterpret_cast<const sockaddr*>(&from), sizeof(from)) != 0) {
        return false;
      }
    }
    const sockaddr_in to = V4(host, port);
    return connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }
  bool ConnectV6(int port) const {
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(static_cast<uint16_t>(port));
    to.sin6_addr = in6addr_loopback;
    return connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }
  bool ConnectUnix(const std::string& path) const {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, path.data(), path.size());
    return connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }
  // Waits; true if the other side has closed without a word.
  bool IsHungUpOn() const {
    char c = 0;
    return recv(fd_, &c, 1, 0) <= 0;
  }
  // Ends the connection by a reset.
  void Reset() {
    const linger none{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    Close();
  }
  void Close() {
    if (fd_ >= 0) {
      close(std::exchange(fd_, -1));
    }
  }
  int fd() const { return fd_; }

 private:
  static sockaddr_in V4(const char* host, int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, host, &address.sin_addr);
    return address;
  }

  int fd_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_TESTS_SERVER_RPC_SOCKETS_H_
