// Guard: what guards the listeners of a server, from its settings: who may call what, TLS, and the
// files of both looked after.
#ifndef BEAMWRIGHT_SERVER_ACCESS_GUARD_H_
#define BEAMWRIGHT_SERVER_ACCESS_GUARD_H_

#include <openssl/ssl.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ops/base/threads.h"
#include "server/access/access.h"

namespace beamwright::access {

// TLS: certificates and key of the listeners, read from files again when they change and taken only
// if they fit each other; HTTP takes the context made of them, gRPC their text. Also what a
// certificate says about its owner.

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

// Refresher: looks after files that may change while the server runs.

class Refresher {
 public:
  // Calls every one of `refresh` each `interval`, 10 ms at least, on a separate thread; an error
  // is logged when it is a new one. What they use must outlive the refresher.
  Refresher(absl::Duration interval, std::vector<std::function<absl::Status()>> refresh);
  // Has everything looked at soon, whatever the interval; does not wait. Thread-safe.
  void Hurry() { thread_.Hurry(); }

  absl::Duration interval() const { return interval_; }

 private:
  void Look();

  const absl::Duration interval_;
  const std::vector<std::function<absl::Status()>> refresh_;
  std::vector<std::string> last_errors_;  // the thread's own
  PeriodicThread thread_;                 // last: it uses the others
};

struct GuardOptions {
  TlsFiles tls;  // without cert and key: clear text
  std::string token_file;
  std::string tenant_file;
  // How often the files are looked at.
  absl::Duration refresh = absl::Seconds(10);
  // Tokens may cross a network in clear text, because something else encrypts it.
  bool tokens_in_clear = false;
};

class Guard {
 public:
  // InvalidArgument names settings that do not go together, or the file that is wrong: `addresses`
  // are those where the API listens; without TLS tokens are taken on loopback and Unix sockets
  // only.
  static absl::StatusOr<std::unique_ptr<Guard>> Make(const GuardOptions& options,
                                                     const std::vector<std::string>& addresses);

  // Has files that changed read again soon, whatever the interval; does not wait. Thread-safe.
  void Refresh() const;

  const Access& api() const { return *api_; }
  // On the admin listener, which has no certificates: tokens, or on a server without tokens
  // everybody who reaches it.
  const Access& admin() const { return *admin_; }
  // Null for clear text.
  const TlsContext* tls() const { return tls_.get(); }

 private:
  Guard() = default;

  std::unique_ptr<Access> api_;
  std::unique_ptr<Access> admin_;
  std::unique_ptr<TlsContext> tls_;
  std::unique_ptr<Refresher> refresher_;  // uses the others
};

// True for "127.0.0.1:8001", "localhost:8001", "[::1]:8001", "unix:/path".
bool IsLocal(const std::string& address);

}  // namespace beamwright::access

#endif  // BEAMWRIGHT_SERVER_ACCESS_GUARD_H_
