// InferenceService: inference.GRPCInferenceService, the Open Inference Protocol over gRPC.
#ifndef BEAMWRIGHT_SERVER_RPC_INFERENCE_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_INFERENCE_SERVICE_H_

#include "inference/grpc_service.grpc.pb.h"
#include "server/oip/service.h"
#include "server/rpc/gate.h"
#include "server/rpc/inference_stream.h"

namespace beamwright::rpc {

// Every method takes raw bytes (raw_message.h says why).
using InferenceMethods = inference::GRPCInferenceService;
using RawInferenceService = InferenceMethods::WithRawCallbackMethod_ServerLive<
    InferenceMethods::WithRawCallbackMethod_ServerReady<
        InferenceMethods::WithRawCallbackMethod_ModelReady<
            InferenceMethods::WithRawCallbackMethod_ServerMetadata<
                InferenceMethods::WithRawCallbackMethod_ModelMetadata<
                    InferenceMethods::WithRawCallbackMethod_ModelInfer<
                        InferenceMethods::WithRawCallbackMethod_ModelStreamInfer<
                            InferenceMethods::WithRawCallbackMethod_ModelConfig<
                                InferenceMethods::WithRawCallbackMethod_ModelStatistics<
                                    InferenceMethods::WithRawCallbackMethod_RepositoryIndex<
                                        InferenceMethods::WithRawCallbackMethod_RepositoryModelLoad<
                                            InferenceMethods::
                                                WithRawCallbackMethod_RepositoryModelUnload<
                                                    InferenceMethods::
                                                        WithRawCallbackMethod_LogSettings<
                                                            InferenceMethods::Service>>>>>>>>>>>>>;

// Thread-safe. Gate and service must outlive it.
class InferenceService final : public RawInferenceService {
 public:
  InferenceService(const Gate& gate, oip::Service& service) : gate_(gate), service_(service) {}

  // Lets streams end when what they were asked is answered; new ones are refused by the decoder.
  void EndStreams() { streams_.EndAll(); }

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Unary = grpc::ServerUnaryReactor;
  Unary* ModelInfer(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerBidiReactor<Bytes, Bytes>* ModelStreamInfer(Context* context) override;
  Unary* ServerLive(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ServerReady(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ModelReady(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ServerMetadata(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ModelMetadata(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ModelConfig(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ModelStatistics(Context* context, const Bytes* request, Bytes* response) override;
  Unary* RepositoryIndex(Context* context, const Bytes* request, Bytes* response) override;
  Unary* LogSettings(Context* context, const Bytes* request, Bytes* response) override;
  Unary* RepositoryModelLoad(Context* context, const Bytes* request, Bytes* response) override;
  Unary* RepositoryModelUnload(Context* context, const Bytes* request, Bytes* response) override;

 private:
  template <typename Request, typename Response>
  Unary* Tell(const GuardedMethod& method, Context* context, const Bytes& request, Bytes& response);
  template <typename Request, typename Response>
  Unary* Control(const GuardedMethod& method, Context* context, const Bytes& request,
                 Bytes& response);

  const Gate& gate_;
  oip::Service& service_;
  OpenStreams streams_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_INFERENCE_SERVICE_H_
