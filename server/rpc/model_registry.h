// ModelRegistry: the models that are served, compiled, and why others are not.
#ifndef BEAMWRIGHT_SERVER_RPC_MODEL_REGISTRY_H_
#define BEAMWRIGHT_SERVER_RPC_MODEL_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/model.pb.h"
#include "server/engine/decode_model.h"
#include "server/model/repository.h"

namespace beamwright::rpc {

struct ModelPaths {
  std::vector<std::string> repositories;  // each <repository>/<model>/<version>/
  std::vector<std::string> models;        // each one model's folder or one bundle
};

using ModelPtr = std::shared_ptr<const engine::DecodeModel>;

// Immutable and thread-safe after Load.
class ModelRegistry {
 public:
  // Loads and compiles the newest good version of every model; one log line for each version that
  // is served or is not. Errors: a path that can't be read, NotFound or FailedPrecondition (with
  // all reasons) if no model can be served, Cancelled if `stopped` (asked between models; may be
  // null) says so.
  static absl::StatusOr<std::unique_ptr<ModelRegistry>> Load(
      const ModelPaths& paths, const std::function<bool()>& stopped = nullptr);

  // The model of a request: its newest version if `version` is empty, and the only model if `name`
  // is empty. NotFound saying which there are; InvalidArgument for no name among several models.
  absl::StatusOr<ModelPtr> Lookup(const std::string& name, const std::string& version) const;

  // All versions served, then all that failed with the reason, by name.
  std::vector<v1::ModelSummary> List() const;

 private:
  ModelRegistry() = default;
  absl::Status Add(model::Bundle bundle);
  std::string Names() const;

  struct Served {
    std::map<std::string, ModelPtr> versions;
    ModelPtr newest;
  };
  std::map<std::string, Served> models_;
  std::vector<model::LoadFailure> failures_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_MODEL_REGISTRY_H_
