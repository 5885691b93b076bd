#include "server/rpc/services.h"

#include <utility>

#include "server/rpc/decode_call.h"
#include "server/rpc/stream_calls.h"
#include "server/serving/decode.h"

namespace beamwright::rpc {

TranslateService::TranslateService(const Gate& gate, serving::Core& core) : translator_(core) {
  Serve("Translate",
        DecodeCallsOf<v1::TranslateRequest>(
            gate, core, serving::Method::kTranslate,
            [this](serving::Core& /*core*/, absl::StatusOr<v1::TranslateRequest> request,
                   const serving::Caller& caller, translate::TranslateDone done) {
              translator_.Translate(std::move(request), caller, std::move(done));
            }));
  Serve("StreamTranslate",
        [this, &gate, &core](const GuardedMethod& method, grpc::CallbackServerContext& context) {
          return StreamTranslateCall::Start(gate, core, translator_, context, method);
        });
}

ModelService::ModelService(const Gate& gate, const serving::ModelRegistry& models) {
  Serve("ListModels", AtOnceCallsOf<v1::ListModelsRequest, v1::ListModelsResponse>(
                          gate, [&models](const v1::ListModelsRequest& /*request*/,
                                          const auto& answer) { answer(models.ListAll()); }));
  Serve("DescribeModel",
        AtOnceCallsOf<v1::DescribeModelRequest, v1::ModelDescription>(
            gate, [&models](const v1::DescribeModelRequest& request, const auto& answer) {
              const std::string name = request.model();
              const std::string version = request.version();
              models.Await(name, version, absl::InfiniteFuture(),
                           [&models, name, version, answer](const absl::Status& status) {
                             if (status.ok()) {
                               answer(models.Describe(name, version));
                             } else {
                               answer(status);
                             }
                           });
            }));
}

DecodeService::DecodeService(const Gate& gate, serving::Core& core) {
  using serving::Method;
  Serve("Decode", DecodeCallsOf<v1::DecodeRequest>(gate, core, Method::kDecode, serving::Decode));
  Serve("Score", DecodeCallsOf<v1::ScoreRequest>(gate, core, Method::kScore, serving::Score));
  Serve("Align", DecodeCallsOf<v1::AlignRequest>(gate, core, Method::kAlign, serving::Align));
  Serve("StreamDecode",
        [&gate, &core](const GuardedMethod& method, grpc::CallbackServerContext& context) {
          return StreamDecodeCall::Start(gate, core, context, method);
        });
}

RecognizeService::RecognizeService(const Gate& gate, serving::Core& core) {
  Serve("Recognize",
        [&gate, &core](const GuardedMethod& method, grpc::CallbackServerContext& context) {
          return RecognizeCall::Start(gate, core, context, gate.Admit(context, method));
        });
}

}  // namespace beamwright::rpc
