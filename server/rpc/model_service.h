// ModelService: beamwright.v1.ModelService, what is served.
#ifndef BEAMWRIGHT_SERVER_RPC_MODEL_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_MODEL_SERVICE_H_

#include "beamwright/v1/model.grpc.pb.h"
#include "server/rpc/model_registry.h"

namespace beamwright::rpc {

// Thread-safe. The registry must outlive it.
class ModelService final
    : public v1::ModelService::WithRawCallbackMethod_ListModels<
          v1::ModelService::WithRawCallbackMethod_DescribeModel<v1::ModelService::Service>> {
 public:
  explicit ModelService(const ModelRegistry& models) : models_(models) {}

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* DescribeModel(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;

 private:
  absl::Status List(const grpc::ByteBuffer& request, grpc::ByteBuffer& response) const;
  absl::Status DescribeOne(const grpc::ByteBuffer& request, grpc::ByteBuffer& response) const;

  const ModelRegistry& models_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_MODEL_SERVICE_H_
