// ModelRegistry: the models that are served, compiled, and why others are not. Models can be
// replaced and taken away while requests run.
#ifndef BEAMWRIGHT_SERVER_SERVING_MODEL_REGISTRY_H_
#define BEAMWRIGHT_SERVER_SERVING_MODEL_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/model.pb.h"
#include "server/engine/decode_model.h"
#include "server/model/repository.h"

namespace beamwright::serving {

struct ModelPaths {
  std::vector<std::string> repositories;  // each <repository>/<model>/<version>/
  std::vector<std::string> models;        // each one model's folder or one bundle
  engine::CompileOptions compile;         // of all of them
};

// The models that the paths lead to, by path. A repository without any is warned about. Errors: a
// path that can't be read.
absl::StatusOr<std::vector<model::ModelFolder>> FindFolders(const ModelPaths& paths);

using ModelPtr = std::shared_ptr<const engine::DecodeModel>;

// Thread-safe. A request holds the model that it was given, so a version that is replaced or
// unloaded finishes what it has begun and then goes.
class ModelRegistry {
 public:
  // Told of every version that was tried: its model, whether it is served, how long it took.
  using LoadObserver = std::function<void(const std::string& model, bool loaded, absl::Duration)>;
  // Told when a model begins (true) or ceases to be served.
  using ServingObserver = std::function<void(const std::string& model, bool served)>;

  // Loads and compiles the newest good version of every model; one log line for each version that
  // is served or is not. Errors: a path that can't be read, NotFound or FailedPrecondition (with
  // all reasons) if no model can be served, Cancelled if `stopped` (asked between models; may be
  // null) says so. `observer` may be null.
  static absl::StatusOr<std::unique_ptr<ModelRegistry>> Load(
      const ModelPaths& paths, const std::function<bool()>& stopped = nullptr,
      const LoadObserver& observer = nullptr);

  // Looks at the folders again and serves the newest version of the model (by its name or its
  // folder's) in place of what it served before, all at once. Until then, and if it fails, nothing
  // that is served changes: NotFound if no path has such a model, FailedPrecondition with the
  // reason if its newest version can't be served, AlreadyExists if another model has its name.
  // Takes as long as loading does; one call at a time, others wait.
  absl::Status Reload(const std::string& name);
  // New requests no longer find the model. OK also if there is none.
  void Unload(const std::string& name);
  void Observe(ServingObserver observer);

  // The model of a request: its newest version if `version` is empty, and the only model if `name`
  // is empty. NotFound saying which there are; InvalidArgument for no name among several models.
  absl::StatusOr<ModelPtr> Lookup(const std::string& name, const std::string& version) const;

  // Every version that is served, by name and version.
  std::vector<ModelPtr> AllServed() const;
  // All versions served, then all that are not, with the reason, by name.
  std::vector<v1::ModelSummary> List() const;
  v1::ListModelsResponse ListAll() const;

 private:
  struct Served {
    std::string folder;  // its name, which the model's need not be
    ModelPtr model;
  };
  using Models = std::map<std::string, Served>;

  explicit ModelRegistry(ModelPaths paths, LoadObserver observer)
      : paths_(std::move(paths)), load_observer_(std::move(observer)) {}
  // Compiles the newest version that is good, with why newer ones are not.
  model::LoadReport Compile(const model::ModelFolder& folder, ModelPtr& compiled) const;
  // Serves `compiled` from now on. AlreadyExists if another folder's model has its name.
  absl::Status Serve(const std::string& folder, ModelPtr compiled);
  Models::const_iterator FindByFolder(const std::string& folder) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  std::string Names() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const ModelPaths paths_;
  const LoadObserver load_observer_;
  absl::Mutex load_mutex_;  // held while a model loads
  mutable absl::Mutex mutex_;
  Models models_ ABSL_GUARDED_BY(mutex_);
  // By folder: what is not served, and why.
  std::map<std::string, std::vector<model::LoadFailure>> failures_ ABSL_GUARDED_BY(mutex_);
  ServingObserver serving_observer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_MODEL_REGISTRY_H_
