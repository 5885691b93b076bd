// HostPort: an address to listen on, in the words of the settings.
#ifndef BEAMWRIGHT_SERVER_SERVING_HOST_PORT_H_
#define BEAMWRIGHT_SERVER_SERVING_HOST_PORT_H_

#include <string>

#include "absl/status/statusor.h"

namespace beamwright::serving {

struct HostPort {
  std::string host;  // without the brackets around an IPv6 address; may be empty
  int port = 0;
};

// "host:port", "[::1]:port". InvalidArgument for what is neither.
absl::StatusOr<HostPort> ParseHostPort(const std::string& address);

// The port of `address`, which is a host:port, on another host.
std::string WithHost(const std::string& host, const std::string& address);

// A host:port with the port that was taken.
std::string WithPort(const std::string& address, int port);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_HOST_PORT_H_
