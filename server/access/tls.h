// TLS: certificates and key of the listeners, read from files again when they change and taken only
// if they fit each other; HTTP takes the context made of them, gRPC their text. Also what a
// certificate says about its owner.
#ifndef BEAMWRIGHT_SERVER_ACCESS_TLS_H_
#define BEAMWRIGHT_SERVER_ACCESS_TLS_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace beamwright::access {

struct TlsFiles {
  std::string cert;       // the server's certificate and those between it and the root, PEM
  std::string key;        // its private key, PEM
  std::string client_ca;  // those that sign clients' certificates, PEM; empty: clients need none
};

// Thread-safe.
class TlsContext {
 public:
  // What the files held, PEM.
  struct Content {
    std::string cert;
    std::string key;
    std::string client_ca;  // empty: clients need no certificates
  };

  // TLS 1.2 and later, HTTP/1.1 by ALPN. InvalidArgument names the file that can't be read, is no
  // PEM, or does not fit the others.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Load(const TlsFiles& files);

  // Reads the files again if one has changed. An error leaves what was: a certificate and its key
  // are replaced one after the other.
  absl::Status Refresh();

  // For new connections. With client_ca it refuses those without a certificate that is signed and
  // valid.
  std::shared_ptr<SSL_CTX> current() const;

  // What `current` was made of: fits together, and is another object once the files have changed.
  std::shared_ptr<const Content> content() const;

 private:
  explicit TlsContext(const TlsFiles& files) : files_(files) {}
  absl::StatusOr<Content> Read() const;

  const TlsFiles files_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const Content> content_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<SSL_CTX> context_ ABSL_GUARDED_BY(mutex_);
};

// The names in a peer's certificate, as gRPC reports them: its alternative names (URI, DNS, e-mail,
// address), or without these its common name.
std::vector<std::string> PeerNames(const SSL& connection);

}  // namespace beamwright::access

#endif  // BEAMWRIGHT_SERVER_ACCESS_TLS_H_
