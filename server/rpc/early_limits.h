// Limits on a connection before its client acknowledges SETTINGS.
//
// gRPC 1.51 applies the limits of ServerBuilder once a client has acknowledged them, which a
// hostile client never does. Until then a connection has the defaults of a table in libgrpc:
// 16 MiB of decoded headers for each call, which 5 KB of one-byte HPACK references come to before
// any code of ours runs, and any number of calls. No setting reaches the table, so its entries are
// overwritten at the start.
#ifndef BEAMWRIGHT_SERVER_RPC_EARLY_LIMITS_H_
#define BEAMWRIGHT_SERVER_RPC_EARLY_LIMITS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace beamwright::rpc {

struct EarlyLimits {
  uint32_t header_bytes = 0;  // of a call, as decoded; at most 16 MiB
  uint32_t streams = 0;
};

// Sets them for connections that are opened afterwards, of servers and of clients in the process,
// which hold themselves to them too until their peer sends its own. gRPC sends no setting that
// equals its default: each should differ from what the server is built with. Not thread-safe: to be
// called before the process has a connection. FailedPrecondition, and nothing is changed, if the
// gRPC that is loaded does not have the table of version 1.51; the system's error if its memory
// cannot be written.
absl::Status SetEarlyLimits(const EarlyLimits& limits);

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_EARLY_LIMITS_H_
