// DecodeService: beamwright.v1.DecodeService over gRPC's callback API. A handler parses and hands
// over to serving::Decoder; no gRPC thread waits for a step.
#ifndef BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_

#include "beamwright/v1/decode.grpc.pb.h"
#include "server/rpc/gate.h"
#include "server/serving/decoder.h"

namespace beamwright::rpc {

// Thread-safe. Gate and decoder must outlive it.
class DecodeService final
    : public v1::DecodeService::WithRawCallbackMethod_Decode<v1::DecodeService::Service> {
 public:
  DecodeService(const Gate& gate, serving::Decoder& decoder) : gate_(gate), decoder_(decoder) {}

  grpc::ServerUnaryReactor* Decode(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;

 private:
  const Gate& gate_;
  serving::Decoder& decoder_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_
