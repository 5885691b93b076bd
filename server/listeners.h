// What the server listens with, made from its flags. Each function says in its error which flag is
// at fault and in the log where it listens; each pointer is null for the address "none".
#ifndef BEAMWRIGHT_SERVER_LISTENERS_H_
#define BEAMWRIGHT_SERVER_LISTENERS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/guard.h"
#include "server/http/cors.h"
#include "server/http/listener.h"
#include "server/http/probes.h"
#include "server/oip/service.h"
#include "server/rpc/server.h"
#include "server/serving/core.h"
#include "server/serving/flags.h"
#include "server/websocket/listener.h"

namespace beamwright {

// Where calls are guarded.
std::vector<std::string> ApiAddresses(const serving::Flags& flags);

absl::StatusOr<http::Cors> CorsOf(const serving::Flags& flags);

// gRPC, which is never off.
absl::StatusOr<std::unique_ptr<rpc::Server>> ListenForCalls(const serving::Flags& flags,
                                                            const access::Guard& guard,
                                                            oip::Service& inference);

// How many connections a listener of HTTP may have, of the files that the process may open: a
// quarter, since gRPC, WebSocket and models need theirs.
http::ConnectionBounds ConnectionBoundsOfFiles();
// The same for WebSocket, where the setting may be lower.
int MaxWebSocketConnections(const serving::Flags& flags);

// HTTP at options.address, which `flag` gave. `what` is for the log.
absl::StatusOr<std::unique_ptr<http::Listener>> Listen(const char* flag, const char* what,
                                                       const http::ListenerOptions& options,
                                                       http::Handler handler);

// Probes and metrics, whose port is written at once: monitors of the load read it.
absl::StatusOr<std::unique_ptr<http::ProbeListener>> ListenForProbes(const serving::Flags& flags,
                                                                     const http::Probes& probes);

absl::StatusOr<std::unique_ptr<websocket::Listener>> ListenForStreams(const serving::Flags& flags,
                                                                      serving::Core& core,
                                                                      const access::Guard& guard,
                                                                      const http::Cors& cors);

// After the error of a listener that does not start: what other listeners could not bind either,
// one error each, so that all conflicts of ports are known at once. Empty for any other error.
// Nothing listens when it is called.
std::vector<absl::Status> OtherConflicts(const serving::Flags& flags, const absl::Status& error);

// Writes to the log who can call: this machine alone, with the flags that admit others, or every
// machine, if neither TLS nor tokens restrict it.
void LogWhoMayCall(const serving::Flags& flags);

// Writes the listeners' ports, a line `NAME PORT` each, to the file `path`, unless that is empty;
// by rename, so that a script never reads half a file. A script that waits for the file waits for
// the models, too.
absl::Status WritePorts(const std::string& path, const std::map<std::string, int>& ports);

}  // namespace beamwright

#endif  // BEAMWRIGHT_SERVER_LISTENERS_H_
