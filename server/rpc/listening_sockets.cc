// Opens the sockets of an address: host:port, unix:PATH or unix-abstract:NAME.
//
// 1. OpenTcp listens on every address of the host, all with one port, also if the port is chosen by
//    the system. A wildcard address becomes one IPv6 socket that takes IPv4 too, or IPv4 where a
//    machine has no IPv6 (OpenWildcard).
// 2. OpenUnix removes the file of a server that has crashed: nothing accepts on it (IsAlive). Close
//    removes the file only if it is still the one that was made (inode_), as another server may
//    have taken its place.
//
// TCP keepalive is set on the listening socket, and accepted sockets inherit it.
#include "server/rpc/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "server/serving/settings.h"

namespace beamwright::rpc {
namespace {

// The kernel notices a peer whose machine is gone after three minutes, so that no thread must wake
// for it here. gRPC's pings come every two hours.
constexpr int kKeepaliveIdleSeconds = 120;
constexpr int kKeepaliveIntervalSeconds = 15;
constexpr int kKeepaliveProbes = 4;

absl::Status Failed(const char* what) { return absl::ErrnoToStatus(errno, what); }

void Set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

// Options that accepted sockets inherit.
void SetTcpOptions(int fd) {
  Set(fd, SOL_SOCKET, SO_REUSEADDR, 1);  // also after a crash the port can be taken again
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  Set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  Set(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
}

// A listening socket; `both`: an IPv6 one that takes IPv4 as well.
absl::StatusOr<int> Listen(const sockaddr* address, socklen_t size, bool both) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return Failed("socket");
  }
  if (address->sa_family != AF_UNIX) {
    SetTcpOptions(fd);
  }
  if (address->sa_family == AF_INET6) {
    Set(fd, IPPROTO_IPV6, IPV6_V6ONLY, both ? 0 : 1);
  }
  if (bind(fd, address, size) != 0 || listen(fd, SOMAXCONN) != 0) {
    const absl::Status status = Failed("bind");
    close(fd);
    return status;
  }
  return fd;
}

void SetPort(sockaddr* address, int port) {
  const auto number = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = number;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = number;
  }
}

int PortOf(int fd) {
  sockaddr_in6 address{};  // IPv4 has its port in the same place
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

// Whether a process listens there. Does not wait: a full queue of connections is an answer, too.
bool IsAlive(const sockaddr_un& address, socklen_t size) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const bool refused = fd >= 0 &&
                       connect(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 &&
                       errno == ECONNREFUSED;
  close(fd);
  return !refused;
}

bool IsWildcard(const sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  }
  return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

}  // namespace

absl::StatusOr<ListeningSockets> ListeningSockets::Open(const std::string& address) {
  ListeningSockets sockets;
  absl::Status status;
  absl::string_view rest = address;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    status = sockets.OpenUnix(std::string(rest), /*abstract=*/false);
  } else if (absl::ConsumePrefix(&rest, "unix-abstract:")) {
    status = sockets.OpenUnix(std::string(rest), /*abstract=*/true);
  } else {
    BW_ASSIGN_OR_RETURN(const serving::HostPort place, serving::ParseHostPort(address));
    status = sockets.OpenTcp(place.host, place.port);
  }
  if (!status.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on '", address, "': ", status.message()));
  }
  return sockets;
}

ListeningSockets& ListeningSockets::operator=(ListeningSockets&& other) noexcept {
  std::swap(fds_, other.fds_);
  std::swap(port_, other.port_);
  std::swap(path_, other.path_);
  std::swap(inode_, other.inode_);
  return *this;
}

void ListeningSockets::Close() {
  struct stat file {};
  if (!path_.empty() && lstat(path_.c_str(), &file) == 0 && file.st_ino == inode_) {
    unlink(path_.c_str());
  }
  path_.clear();
  for (const int fd : fds_) {
    close(fd);
  }
  fds_.clear();
}

absl::Status ListeningSockets::OpenUnix(const std::string& path, bool abstract) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A name that is not a file follows a zero byte and has no end but its size.
  const size_t begin = abstract ? 1 : 0;
  if (path.empty() || begin + path.size() >= sizeof(address.sun_path)) {
    return Invalid("the name of a Unix socket has 1 to ", sizeof(address.sun_path) - 2, " bytes");
  }
  std::memcpy(address.sun_path + begin, path.data(), path.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + begin + path.size() +
                                           (abstract ? 0 : 1));
  struct stat file {};
  if (!abstract && lstat(path.c_str(), &file) == 0 && S_ISSOCK(file.st_mode) &&
      !IsAlive(address, size)) {
    unlink(path.c_str());  // of a server that crashed
  }
  BW_ASSIGN_OR_RETURN(const int fd, Listen(reinterpret_cast<const sockaddr*>(&address), size,
                                           /*both=*/false));
  fds_.push_back(fd);
  if (!abstract && lstat(path.c_str(), &file) == 0) {
    path_ = path;
    inode_ = file.st_ino;
  }
  return absl::OkStatus();
}

absl::Status ListeningSockets::OpenTcp(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), "0", &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  absl::Status first;
  for (addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (IsWildcard(each->ai_addr)) {
      return OpenWildcard(port);
    }
    SetPort(each->ai_addr, port_ > 0 ? port_ : port);
    const absl::StatusOr<int> fd = Listen(each->ai_addr, each->ai_addrlen, /*both=*/false);
    if (fd.ok()) {
      fds_.push_back(*fd);
      port_ = PortOf(*fd);
    } else {
      first.Update(fd.status());
    }
  }
  if (!first.ok() && !fds_.empty()) {
    spdlog::warn("gRPC does not listen on all addresses of '{}': {}", host,
                 std::string(first.message()));
  }
  return fds_.empty() ? first : absl::OkStatus();
}

absl::Status ListeningSockets::OpenWildcard(int port) {
  sockaddr_in6 both{};
  both.sin6_family = AF_INET6;
  SetPort(reinterpret_cast<sockaddr*>(&both), port);
  absl::StatusOr<int> fd = Listen(reinterpret_cast<sockaddr*>(&both), sizeof(both), /*both=*/true);
  if (!fd.ok()) {  // a machine without IPv6
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    SetPort(reinterpret_cast<sockaddr*>(&v4), port);
    fd = Listen(reinterpret_cast<sockaddr*>(&v4), sizeof(v4), /*both=*/false);
  }
  if (fd.ok()) {
    fds_.push_back(*fd);
    port_ = PortOf(*fd);
  }
  return fd.status();
}

}  // namespace beamwright::rpc
