// ModelService: beamwright.v1.ModelService, what is served.
#ifndef BEAMWRIGHT_SERVER_RPC_MODEL_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_MODEL_SERVICE_H_

#include "beamwright/v1/model.grpc.pb.h"
#include "server/rpc/gate.h"
#include "server/serving/model_registry.h"

namespace beamwright::rpc {

// Thread-safe. Gate and registry must outlive it.
class ModelService final
    : public v1::ModelService::WithRawCallbackMethod_ListModels<
          v1::ModelService::WithRawCallbackMethod_DescribeModel<v1::ModelService::Service>> {
 public:
  ModelService(const Gate& gate, const serving::ModelRegistry& models)
      : gate_(gate), models_(models) {}

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* DescribeModel(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;

 private:
  const Gate& gate_;
  const serving::ModelRegistry& models_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_MODEL_SERVICE_H_
