// DecodeService: beamwright.v1.DecodeService over gRPC's callback API. A handler parses and hands
// over to serving::Decoder; no gRPC thread waits for a step.
#ifndef BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_

#include "beamwright/v1/decode.grpc.pb.h"
#include "server/rpc/gate.h"
#include "server/serving/decoder.h"

namespace beamwright::rpc {

// Every method takes raw bytes (raw_message.h says why).
using DecodeMethods = v1::DecodeService;
using RawDecodeService = DecodeMethods::WithRawCallbackMethod_Decode<
    DecodeMethods::WithRawCallbackMethod_StreamDecode<DecodeMethods::WithRawCallbackMethod_Score<
        DecodeMethods::WithRawCallbackMethod_Align<DecodeMethods::Service>>>>;

// Thread-safe. Gate and decoder must outlive it.
class DecodeService final : public RawDecodeService {
 public:
  DecodeService(const Gate& gate, serving::Decoder& decoder) : gate_(gate), decoder_(decoder) {}

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  grpc::ServerUnaryReactor* Decode(Context* context, const Bytes* request,
                                   Bytes* response) override;
  grpc::ServerWriteReactor<Bytes>* StreamDecode(Context* context, const Bytes* request) override;
  grpc::ServerUnaryReactor* Score(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerUnaryReactor* Align(Context* context, const Bytes* request, Bytes* response) override;

 private:
  const Gate& gate_;
  serving::Decoder& decoder_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_
