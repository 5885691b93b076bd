#include "client/load/http_address.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/channels.h"
#include "client/credentials.h"
#include "ops/base/status.h"

namespace beamwright::client {

absl::StatusOr<HttpAddress> HttpAddressOf(const ClientOptions& options) {
  absl::string_view address = options.address;
  ClientOptions plain = options;
  SecurityOptions& security = plain.security;
  security.tls = security.tls || !security.ca_file.empty() || !security.cert_file.empty();
  if (absl::ConsumePrefix(&address, "https://")) {
    security.tls = true;
  } else {
    absl::ConsumePrefix(&address, "http://");
  }
  absl::ConsumeSuffix(&address, "/");
  if (!security.server_name.empty()) {
    return Invalid("over HTTP the certificate must have the host's name; leave out the other one");
  }
  plain.address = std::string(address);
  if (WithDefaultPort(address) != address) {
    absl::StrAppend(&plain.address, ":8000");
  }
  // For its checks of the address and the files; nothing is connected.
  BW_RETURN_IF_ERROR(MakeChannels(plain).status());
  HttpAddress found;
  BW_ASSIGN_OR_RETURN(found.authorization, ReadAuthorization(plain));
  found.url = absl::StrCat(security.tls ? "https://" : "http://", plain.address);
  found.security = security;
  return found;
}

}  // namespace beamwright::client
