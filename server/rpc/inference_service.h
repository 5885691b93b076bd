// InferenceService: inference.GRPCInferenceService, the Open Inference Protocol over gRPC.
#ifndef BEAMWRIGHT_SERVER_RPC_INFERENCE_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_INFERENCE_SERVICE_H_

#include <string>

#include "inference/grpc_service.grpc.pb.h"
#include "server/oip/service.h"
#include "server/rpc/gate.h"
#include "server/rpc/inference_stream.h"
#include "server/rpc/raw_service.h"

namespace beamwright::rpc {

// Thread-safe. Gate and service must outlive it.
class InferenceService final : public RawService<inference::GRPCInferenceService> {
 public:
  InferenceService(const Gate& gate, oip::Service& service);

  // Lets streams end when what they were asked is answered; new ones are refused.
  void EndStreams() { streams_.EndAll(); }

 private:
  // Methods that read, and those that change which models are served.
  template <typename Request, typename Response>
  void ServeAnswer(const std::string& name);
  template <typename Request, typename Response>
  void ServeControl(const std::string& name);

  const Gate& gate_;
  oip::Service& service_;
  OpenStreams streams_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_INFERENCE_SERVICE_H_
