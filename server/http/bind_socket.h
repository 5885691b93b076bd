// BindSocket: the listening sockets of HTTP.
#ifndef BEAMWRIGHT_SERVER_HTTP_BIND_SOCKET_H_
#define BEAMWRIGHT_SERVER_HTTP_BIND_SOCKET_H_

#include <string>

#include "absl/status/statusor.h"

namespace beamwright::http {

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

#endif  // BEAMWRIGHT_SERVER_HTTP_BIND_SOCKET_H_
