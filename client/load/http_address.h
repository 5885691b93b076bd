// Where an HTTP server is, out of the same options that name a gRPC one. Private to the load
// generator.
#ifndef BEAMWRIGHT_CLIENT_LOAD_HTTP_ADDRESS_H_
#define BEAMWRIGHT_CLIENT_LOAD_HTTP_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace beamwright::client {

struct HttpAddress {
  std::string url;  // "http://host:port"
  SecurityOptions security;
  std::string authorization;  // empty: none
};

// "host", "host:port" (8000 without one), or either after http:// or https://. InvalidArgument as
// Client::Connect's, and for a name of the certificate, which HTTP takes from the host.
absl::StatusOr<HttpAddress> HttpAddressOf(const ClientOptions& options);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_HTTP_ADDRESS_H_
