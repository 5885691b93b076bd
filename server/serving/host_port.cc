#include "server/serving/host_port.h"

#include "absl/strings/numbers.h"
#include "ops/base/status.h"

namespace beamwright::serving {

absl::StatusOr<HostPort> ParseHostPort(const std::string& address) {
  HostPort result;
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &result.port) ||
      result.port < 0 || result.port > 65535) {
    return Invalid("'", address, "' is not a valid host:port");
  }
  result.host = address.substr(0, colon);
  if (result.host.size() > 1 && result.host.front() == '[' && result.host.back() == ']') {
    result.host = result.host.substr(1, result.host.size() - 2);
  }
  if (result.host.find_first_of("/ \t") != std::string::npos) {  // a URL
    return Invalid("'", address, "' is not a valid host:port");
  }
  return result;
}

std::string WithHost(const std::string& host, const std::string& address) {
  return absl::StrCat(host, address.substr(address.rfind(':')));
}

std::string WithPort(const std::string& address, int port) {
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

}  // namespace beamwright::serving
