// UnpackGzip: requests that a client has packed (grpc-encoding: gzip). gRPC would unpack them whole
// before it looks at their size.
#ifndef BEAMWRIGHT_SERVER_RPC_UNPACK_H_
#define BEAMWRIGHT_SERVER_RPC_UNPACK_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "absl/status/status.h"

namespace beamwright::rpc {

// Replaces bytes in gzip by what they hold; others stay. No protobuf message begins as gzip does
// (0x1f has a wire type that there is not). ResourceExhausted for more than `max_bytes`,
// InvalidArgument for malformed gzip.
absl::Status UnpackGzip(grpc::ByteBuffer& bytes, int64_t max_bytes);

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_UNPACK_H_
