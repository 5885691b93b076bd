#include "server/http/bind_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "server/serving/settings.h"

namespace beamwright::http {
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
