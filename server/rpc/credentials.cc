#include "server/rpc/credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <string>

namespace beamwright::rpc {
namespace {

// gRPC's C++ side knows certificates that are read once and files that it reads itself; only the C
// side asks for them, at each connection.
class FetchedCredentials final : public grpc::ServerCredentials {
 public:
  explicit FetchedCredentials(const access::TlsContext& tls)
      : tls_(tls),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                tls.content()->client_ca.empty()
                    ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                    : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
                Fetch, this))) {}
  ~FetchedCredentials() override { grpc_server_credentials_release(credentials_); }
  FetchedCredentials(const FetchedCredentials&) = delete;
  FetchedCredentials& operator=(const FetchedCredentials&) = delete;

  // Calls are let in by the gate.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // gRPC holds the listener's lock meanwhile.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto& credentials = *static_cast<FetchedCredentials*>(self);
    const std::shared_ptr<const access::TlsContext::Content> content = credentials.tls_.content();
    if (content == credentials.given_) {
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    }
    const grpc_ssl_pem_key_cert_pair pair = {content->key.c_str(), content->cert.c_str()};
    // It insists on authorities even where no client is asked for a certificate; any do.
    const std::string& roots = content->client_ca.empty() ? content->cert : content->client_ca;
    *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
    credentials.given_ = content;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const access::TlsContext& tls_;
  std::shared_ptr<const access::TlsContext::Content> given_;
  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeCredentials(const access::TlsContext* tls) {
  if (tls == nullptr) {
    return grpc::InsecureServerCredentials();
  }
  return std::make_shared<FetchedCredentials>(*tls);
}

}  // namespace beamwright::rpc
