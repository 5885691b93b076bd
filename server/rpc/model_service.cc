#include "server/rpc/model_service.h"

#include "server/rpc/at_once_call.h"

namespace beamwright::rpc {

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

}  // namespace beamwright::rpc
