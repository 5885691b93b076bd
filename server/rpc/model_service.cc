#include "server/rpc/model_service.h"

#include <utility>

#include "ops/base/status.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/rpc_status.h"

namespace beamwright::rpc {
namespace {

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* ModelService::ListModels(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  return Answer(context, List(*request, *response));
}

grpc::ServerUnaryReactor* ModelService::DescribeModel(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return Answer(context, DescribeOne(*request, *response));
}

absl::Status ModelService::List(const grpc::ByteBuffer& request, grpc::ByteBuffer& response) const {
  v1::ListModelsRequest parsed;
  BW_RETURN_IF_ERROR(ParseRequest(request, parsed));
  v1::ListModelsResponse reply;
  for (v1::ModelSummary& summary : models_.List()) {
    *reply.add_models() = std::move(summary);
  }
  return SerializeReply(reply, response);
}

absl::Status ModelService::DescribeOne(const grpc::ByteBuffer& request,
                                       grpc::ByteBuffer& response) const {
  v1::DescribeModelRequest parsed;
  BW_RETURN_IF_ERROR(ParseRequest(request, parsed));
  BW_ASSIGN_OR_RETURN(const ModelPtr model, models_.Lookup(parsed.model(), parsed.version()));
  return SerializeReply(model->Describe(), response);
}

}  // namespace beamwright::rpc
