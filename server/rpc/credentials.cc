#include "server/rpc/credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>

namespace beamwright::rpc {

std::shared_ptr<grpc::ServerCredentials> MakeCredentials(const access::TlsFiles& tls,
                                                         absl::Duration refresh) {
  if (tls.cert.empty()) {
    return grpc::InsecureServerCredentials();
  }
  const auto seconds = static_cast<unsigned>(std::max<int64_t>(absl::ToInt64Seconds(refresh), 1));
  const auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      tls.key, tls.cert, tls.client_ca, seconds);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  if (!tls.client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace beamwright::rpc
