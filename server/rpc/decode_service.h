// DecodeService: beamwright.v1.DecodeService over gRPC's callback API. A handler parses and hands
// over to serving; no gRPC thread waits for a step.
#ifndef BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_

#include "beamwright/v1/decode.grpc.pb.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"
#include "server/serving/core.h"

namespace beamwright::rpc {

// Thread-safe. Gate and core must outlive it.
class DecodeService final : public RawService<v1::DecodeService> {
 public:
  DecodeService(const Gate& gate, serving::Core& core);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_
