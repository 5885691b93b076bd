#include "client/credentials.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/base/file.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

bool UsesTls(const SecurityOptions& options) {
  return options.tls || !options.ca_file.empty() || !options.cert_file.empty();
}

bool IsLocal(absl::string_view address) {
  return absl::StartsWith(address, "unix:") || absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "[::1]") || address == "localhost" ||
         absl::StartsWith(address, "localhost:");
}

absl::Status Read(const std::string& path, std::string& content) {
  if (!path.empty()) {
    BW_ASSIGN_OR_RETURN(content, ReadFile(path, kMaxFileBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const SecurityOptions& options) {
  if (options.cert_file.empty() != options.key_file.empty()) {
    return Invalid("cert_file and key_file: give both or neither");
  }
  if (!UsesTls(options)) {
    return grpc::InsecureChannelCredentials();
  }
  grpc::SslCredentialsOptions ssl;
  BW_RETURN_IF_ERROR(Read(options.ca_file, ssl.pem_root_certs));
  BW_RETURN_IF_ERROR(Read(options.cert_file, ssl.pem_cert_chain));
  BW_RETURN_IF_ERROR(Read(options.key_file, ssl.pem_private_key));
  return grpc::SslCredentials(ssl);
}

absl::StatusOr<std::string> ReadAuthorization(const ClientOptions& options) {
  if (options.security.token_file.empty()) {
    return std::string();
  }
  if (!UsesTls(options.security) && !IsLocal(options.address)) {
    return Invalid("token_file: a token is not sent over a network in clear text; use TLS");
  }
  std::string token;
  BW_RETURN_IF_ERROR(Read(options.security.token_file, token));
  const absl::string_view bare = absl::StripAsciiWhitespace(token);
  for (const char c : bare) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return Invalid("token_file: '", options.security.token_file,
                     "' holds more than one word of printable ASCII");
    }
  }
  if (bare.empty()) {
    return Invalid("token_file: '", options.security.token_file, "' is empty");
  }
  return absl::StrCat("Bearer ", bare);
}

}  // namespace beamwright::client
