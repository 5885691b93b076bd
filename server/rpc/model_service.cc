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
                             absl::StatusOr<v1::ModelDescription> description(status);
                             if (status.ok()) {
                               description = models.Describe(name, version);
                             }
                             if (description.ok()) {
                               answer(*description);
                             } else {
                               answer(description.status());
                             }
                           });
            }));
}

}  // namespace beamwright::rpc
