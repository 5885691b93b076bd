// Admin: the operators' routes, on a separate listener that is reachable from this machine alone
// unless its address is set: /debug/scheduler, and models loaded and unloaded whatever clients
// of the API may do.
#ifndef BEAMWRIGHT_SERVER_HTTP_ADMIN_H_
#define BEAMWRIGHT_SERVER_HTTP_ADMIN_H_

#include "include/beamwright/engine.h"
#include "server/access/access.h"
#include "server/http/listener.h"
#include "server/http/rest.h"

namespace beamwright::http {

// Thread-safe. What it is made from must outlive it.
class Admin {
 public:
  // rest: of a service that may control models; it answers /v2/repository and all other paths that
  // it knows.
  Admin(const access::Access& access, const engine::Engine& engine, const Rest& rest)
      : access_(access), engine_(engine), rest_(rest) {}

  HttpReply Handle(const HttpRequest& request) const;

 private:
  HttpReply Scheduler() const;

  const access::Access& access_;
  const engine::Engine& engine_;
  const Rest& rest_;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_ADMIN_H_
