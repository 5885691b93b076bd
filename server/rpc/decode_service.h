// DecodeService: beamwright.v1.DecodeService over gRPC's callback API. A handler parses and hands
// over to serving::Decoder; no gRPC thread waits for a step.
#ifndef BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_

#include "beamwright/v1/decode.grpc.pb.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"
#include "server/serving/decoder.h"

namespace beamwright::rpc {

// Thread-safe. Gate and decoder must outlive it.
class DecodeService final : public RawService<v1::DecodeService> {
 public:
  DecodeService(const Gate& gate, serving::Decoder& decoder);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_
