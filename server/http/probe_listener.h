// ProbeListener: HTTP/1.1 for probes and scrapers. One thread serves all connections and waits for
// none of them (libmicrohttpd on epoll), so a probe is answered in milliseconds whatever others do
// on the port: connections that say nothing, drip or do not read cost a descriptor and a few KiB
// each, and where there are too many, the one that has been quiet for longest makes room, but not
// before it had time to ask: in a crowd that comes again at once, even the oldest has only just
// come. Metrics are written on a second thread, once for all who ask meanwhile, so a crowd of
// scrapers holds no probe up either.
#ifndef BEAMWRIGHT_SERVER_HTTP_PROBE_LISTENER_H_
#define BEAMWRIGHT_SERVER_HTTP_PROBE_LISTENER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/http/probes.h"

namespace beamwright::http {

class ProbeListener {
 public:
  // Answers `probes`, which must outlive it, at "host:port", "[::]:port"; port 0 takes a free one.
  // Errors as BindSocket's. At most max_connections are open that have been quiet for longer than
  // `grace`, and 512 more.
  static absl::StatusOr<std::unique_ptr<ProbeListener>> Start(
      const std::string& address, const Probes& probes, int max_connections = 128,
      absl::Duration grace = absl::Milliseconds(500));
  // Closes all connections.
  ~ProbeListener();
  ProbeListener(const ProbeListener&) = delete;
  ProbeListener& operator=(const ProbeListener&) = delete;

  // Where it listens, with the port that was chosen.
  const std::string& address() const { return address_; }
  int port() const { return port_; }

 private:
  class Impl;

  ProbeListener();
  std::unique_ptr<Impl> impl_;
  std::string address_;
  int port_ = 0;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_PROBE_LISTENER_H_
