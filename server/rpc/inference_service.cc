#include "server/rpc/inference_service.h"

#include "server/rpc/at_once.h"
#include "server/rpc/decode_call.h"

namespace beamwright::rpc {
namespace {

absl::StatusOr<inference::ModelInferRequest> Parse(const grpc::ByteBuffer& bytes) {
  inference::ModelInferRequest request;
  if (absl::Status status = ParseRequest(bytes, request); !status.ok()) {
    return status;
  }
  return request;
}

}  // namespace

grpc::ServerUnaryReactor* InferenceService::ModelInfer(Context* context, const Bytes* request,
                                                       Bytes* response) {
  static const GuardedMethod kMethod("/inference.GRPCInferenceService/ModelInfer");
  auto* call = new DecodeCall(service_.decoder(), *context, *response);
  gate_.CountArrival(*request);
  const absl::StatusOr<access::Identity> identity = gate_.Admit(*context, kMethod);
  if (!identity.ok()) {
    service_.decoder().Refuse(identity.status(), call->AsCaller(serving::Method::kModelInfer));
    call->Refuse(identity.status());
    return call;
  }
  service_.Infer(Parse(*request), call->AsCaller(serving::Method::kModelInfer, *identity),
                 [call](const absl::StatusOr<inference::ModelInferResponse>& answer) {
                   call->Answer(answer);
                 });
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferenceService::ModelStreamInfer(
    Context* context) {
  static const GuardedMethod kMethod("/inference.GRPCInferenceService/ModelStreamInfer");
  return InferenceStream::Start(gate_, service_, streams_, *context,
                                gate_.Admit(*context, kMethod));
}

template <typename Request, typename Response>
grpc::ServerUnaryReactor* InferenceService::Tell(const GuardedMethod& method, Context* context,
                                                 const Bytes& request, Bytes& response) {
  return AnswerAtOnce<Request, Response>(
      gate_, method, context, request, response,
      [this](const Request& parsed, Response& reply) { return service_.Answer(parsed, reply); });
}

template <typename Request, typename Response>
grpc::ServerUnaryReactor* InferenceService::Control(const GuardedMethod& method, Context* context,
                                                    const Bytes& request, Bytes& response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  Request parsed;
  if (const absl::Status refusal = AdmitAndParse(gate_, method, *context, request, parsed);
      !refusal.ok()) {
    reactor->Finish(ToGrpcStatus(refusal));
    return reactor;
  }
  service_.Control(parsed, [reactor, &response](absl::Status status) {
    if (status.ok()) {
      status = SerializeReply(Response(), response);
    }
    reactor->Finish(ToGrpcStatus(status));
  });
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::RepositoryModelLoad(Context* context,
                                                                const Bytes* request,
                                                                Bytes* response) {
  static const GuardedMethod kMethod("/inference.GRPCInferenceService/RepositoryModelLoad");
  return Control<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse>(
      kMethod, context, *request, *response);
}

grpc::ServerUnaryReactor* InferenceService::RepositoryModelUnload(Context* context,
                                                                  const Bytes* request,
                                                                  Bytes* response) {
  static const GuardedMethod kMethod("/inference.GRPCInferenceService/RepositoryModelUnload");
  return Control<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>(
      kMethod, context, *request, *response);
}

#define BW_TELL(method)                                                                        \
  grpc::ServerUnaryReactor* InferenceService::method(Context* context, const Bytes* request,   \
                                                     Bytes* response) {                        \
    static const GuardedMethod kMethod("/inference.GRPCInferenceService/" #method);            \
    return Tell<inference::method##Request, inference::method##Response>(kMethod, context,     \
                                                                         *request, *response); \
  }

BW_TELL(ServerLive)
BW_TELL(ServerReady)
BW_TELL(ModelReady)
BW_TELL(ServerMetadata)
BW_TELL(ModelMetadata)
BW_TELL(ModelConfig)
BW_TELL(ModelStatistics)
BW_TELL(RepositoryIndex)
BW_TELL(LogSettings)
#undef BW_TELL

}  // namespace beamwright::rpc
