// RecognizeService: beamwright.v1.RecognizeService over gRPC's callback API.
#ifndef BEAMWRIGHT_SERVER_RPC_RECOGNIZE_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_RECOGNIZE_SERVICE_H_

#include "beamwright/v1/recognize.grpc.pb.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"
#include "server/serving/core.h"

namespace beamwright::rpc {

// Thread-safe. Gate and core must outlive it.
class RecognizeService final : public RawService<v1::RecognizeService> {
 public:
  RecognizeService(const Gate& gate, serving::Core& core);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_RECOGNIZE_SERVICE_H_
