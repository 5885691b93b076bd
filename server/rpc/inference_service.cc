#include "server/rpc/inference_service.h"

#include <type_traits>

#include "server/rpc/at_once_call.h"
#include "server/rpc/decode_call.h"
#include "server/rpc/unknown_call.h"

namespace beamwright::rpc {

InferenceService::InferenceService(const Gate& gate, oip::Service& service)
    : gate_(gate), service_(service) {
  Serve("ModelInfer",
        DecodeCallsOf<inference::ModelInferRequest>(
            gate, service.core(), serving::Method::kModelInfer,
            [&service](serving::Core&, const absl::StatusOr<inference::ModelInferRequest>& request,
                       const serving::Caller& caller,
                       const auto& answer) { service.Infer(request, caller, answer); }));
  Serve("ModelStreamInfer", [this](const GuardedMethod& method,
                                   grpc::CallbackServerContext& context) {
    return InferenceStream::Start(gate_, service_, streams_, context, gate_.Admit(context, method));
  });
  ServeAnswer<inference::ServerLiveRequest, inference::ServerLiveResponse>("ServerLive");
  ServeAnswer<inference::ServerReadyRequest, inference::ServerReadyResponse>("ServerReady");
  ServeAnswer<inference::ModelReadyRequest, inference::ModelReadyResponse>("ModelReady");
  ServeAnswer<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      "ServerMetadata");
  ServeAnswer<inference::ModelMetadataRequest, inference::ModelMetadataResponse>("ModelMetadata");
  ServeAnswer<inference::ModelConfigRequest, inference::ModelConfigResponse>("ModelConfig");
  ServeAnswer<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>(
      "ModelStatistics");
  ServeAnswer<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>(
      "RepositoryIndex");
  ServeAnswer<inference::LogSettingsRequest, inference::LogSettingsResponse>("LogSettings");
  ServeControl<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse>(
      "RepositoryModelLoad");
  ServeControl<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>(
      "RepositoryModelUnload");
  ServeRest([this](const GuardedMethod& method, grpc::CallbackServerContext& context) {
    return UnknownCall::Start(gate_, context, method.name);
  });
}

template <typename Request, typename Response>
void InferenceService::ServeAnswer(const std::string& name) {
  Serve(name,
        AtOnceCallsOf<Request, Response>(gate_, [this](const Request& request, const auto& answer) {
          const auto reply = [this, request, answer](const absl::Status& ready) {
            Response response;
            const absl::Status status = ready.ok() ? service_.Answer(request, response) : ready;
            if (status.ok()) {
              answer(response);
            } else {
              answer(status);
            }
          };
          // These read what the model's graphs say, so it has to be in memory.
          if constexpr (std::is_same_v<Request, inference::ModelMetadataRequest> ||
                        std::is_same_v<Request, inference::ModelConfigRequest>) {
            service_.core().models().Await(request.name(), request.version(),
                                           absl::InfiniteFuture(), reply);
          } else {
            reply(absl::OkStatus());
          }
        }));
}

template <typename Request, typename Response>
void InferenceService::ServeControl(const std::string& name) {
  Serve(name,
        AtOnceCallsOf<Request, Response>(gate_, [this](const Request& request, const auto& answer) {
          service_.Control(request, [answer](const absl::Status& status) {
            if (status.ok()) {
              answer(Response());
            } else {
              answer(status);
            }
          });
        }));
}

}  // namespace beamwright::rpc
