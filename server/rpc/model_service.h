// ModelService: beamwright.v1.ModelService, what is served.
#ifndef BEAMWRIGHT_SERVER_RPC_MODEL_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_MODEL_SERVICE_H_

#include "beamwright/v1/model.grpc.pb.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"
#include "server/serving/model_registry.h"

namespace beamwright::rpc {

// Thread-safe. Gate and registry must outlive it.
class ModelService final : public RawService<v1::ModelService> {
 public:
  ModelService(const Gate& gate, const serving::ModelRegistry& models);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_MODEL_SERVICE_H_
