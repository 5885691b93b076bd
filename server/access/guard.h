// Guard: what guards the listeners of a server, from its settings: who may call what, TLS, and the
// files of both looked after.
#ifndef BEAMWRIGHT_SERVER_ACCESS_GUARD_H_
#define BEAMWRIGHT_SERVER_ACCESS_GUARD_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ops/base/threads.h"
#include "server/access/access.h"
#include "server/access/tls.h"

namespace beamwright::access {

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
