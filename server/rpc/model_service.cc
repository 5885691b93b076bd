#include "server/rpc/model_service.h"

#include "server/rpc/at_once.h"

namespace beamwright::rpc {

grpc::ServerUnaryReactor* ModelService::ListModels(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  static const GuardedMethod kMethod("/beamwright.v1.ModelService/ListModels");
  return AnswerAtOnce<v1::ListModelsRequest, v1::ListModelsResponse>(
      gate_, kMethod, context, *request, *response, [this](const auto& /*parsed*/, auto& reply) {
        reply = models_.ListAll();
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ModelService::DescribeModel(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  static const GuardedMethod kMethod("/beamwright.v1.ModelService/DescribeModel");
  return AnswerAtOnce<v1::DescribeModelRequest, v1::ModelDescription>(
      gate_, kMethod, context, *request, *response, [this](const auto& parsed, auto& reply) {
        const auto description = models_.Describe(parsed.model(), parsed.version());
        if (description.ok()) {
          reply = *description;
        }
        return description.status();
      });
}

}  // namespace beamwright::rpc
