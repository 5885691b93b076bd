// ModelRegistry: the versions of models that are served, compiled, and why others are not. Models
// can be replaced and taken away while requests run.
#ifndef BEAMWRIGHT_SERVER_SERVING_MODEL_REGISTRY_H_
#define BEAMWRIGHT_SERVER_SERVING_MODEL_REGISTRY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/model.pb.h"
#include "beamwright/v1/serving.pb.h"
#include "engine/bundle/repository.h"
#include "server/serving/demand_loader.h"
#include "server/serving/model_loader.h"

namespace beamwright::serving {

struct ModelPaths {
  std::vector<std::string> repositories;  // each <repository>/<model>/<version>/
  std::vector<std::string> models;        // each one model's folder or one bundle
};

// The models that the paths lead to, by path. A repository without any is warned about. Errors: a
// path that can't be read.
absl::StatusOr<std::vector<bundle::ModelFolder>> FindFolders(const ModelPaths& paths);

// Thread-safe. A request holds the model that it was given, so a version that is replaced or
// unloaded finishes what it has begun and then goes.
//
// A model's folder says which versions are to be served (model/version_policy.h); requests without
// a version get the newest of them. When a folder is looked at again, versions whose files have not
// changed stay as they are, all others are loaded in addition, and then what is served changes at
// once. If the newest version is not good, or a label that requests use would lose its version,
// nothing changes; if another version is not good, it is left out, or stays as it was if it is
// being served.
class ModelRegistry {
 public:
  // Notified of a model and the newest of its versions when that is served from now on; empty: the
  // model is not served, or not any more.
  using ServingObserver = std::function<void(const std::string& model, const std::string& version)>;

  // Serves nothing yet.
  explicit ModelRegistry(ModelPaths paths, LoadOptions options = {})
      : paths_(std::move(paths)), loader_(std::move(options)) {
    if (loader_.options().on_demand) {
      demand_ = std::make_unique<DemandLoader>(loader_, loader_.options().evicted);
    }
  }

  // Loads every model, the newest version that is good if newer ones are not. Once, before all
  // other loads. Errors: a path that can't be read, NotFound or FailedPrecondition (with all
  // reasons) if no model can be served, Cancelled if `stopped` (asked between versions; may be
  // null) says so.
  absl::Status LoadAll(const std::function<bool()>& stopped = nullptr);
  // A registry that has done so.
  static absl::StatusOr<std::unique_ptr<ModelRegistry>> Load(
      const ModelPaths& paths, const std::function<bool()>& stopped = nullptr,
      LoadOptions options = {});

  // Looks at a model's folder again (by the name that it is or was served by, or its folder's).
  // NotFound if no path has such a
  // model, FailedPrecondition with the reason if its newest version can't be served, AlreadyExists
  // if another model has its name: nothing that is served has changed then. Takes as long as
  // loading does; one call at a time, others wait.
  absl::Status Reload(const std::string& name);
  // Takes note of a load that is asked for and not ended, for as long as the result lives, which
  // must not outlive the registry. Aborted while there is another of this name: a crowd that asks
  // for the same load is not to have it done as often.
  absl::StatusOr<std::shared_ptr<const void>> Announce(const std::string& name);
  // Looks at all folders, and again at those that have changed since they were last looked at;
  // models whose folder is gone are no longer served. What fails is logged and listed.
  void Poll();
  // New requests no longer find the model. OK also if it is not served.
  void Unload(const std::string& name);
  // Notifies `observer` of every model, and from now on of changes. Null ends that. It must
  // not call back.
  void Observe(ServingObserver observer);

  // The model of a request: its newest version if `version` is empty, a version's number, or a
  // label; the only model if `name` is empty. NotFound saying which there are; InvalidArgument for
  // no name among several models. On demand: Unavailable (LOADING) for a model that is not in
  // memory, which begins to load, and the error of a load that failed a moment ago.
  absl::StatusOr<ModelPtr> Lookup(const std::string& name, const std::string& version) const;
  // The same without its model. Errors as Lookup's, those of loads aside.
  absl::StatusOr<ServedModelPtr> Peek(const std::string& name, const std::string& version) const;

  bool on_demand() const { return demand_ != nullptr; }
  // Calls `go` when Lookup finds the model in memory, at once unless models are loaded on demand;
  // with an error if the model can't be loaded before `deadline`. What Lookup refuses is left to
  // Lookup. `go` must not wait.
  void Await(const std::string& name, const std::string& version, absl::Time deadline,
             DemandLoader::Go go) const;
  // Ends the waiting of calls (Unavailable). Nothing is loaded on demand any more.
  void EndWaiting();

  // What a request may know of it. Errors as Lookup's.
  absl::StatusOr<v1::ModelDescription> Describe(const std::string& name,
                                                const std::string& version) const;

  // Every version that is served, by name, newest first.
  std::vector<ServedModelPtr> AllListed() const;
  // Those of them that are in memory: all, unless models are loaded on demand.
  std::vector<ModelPtr> AllServed() const;
  // All versions served, then all that are not, with the reason, by name.
  std::vector<v1::ModelSummary> List() const;
  v1::ListModelsResponse ListAll() const;

 private:
  struct Version {
    ServedModelPtr model;
    std::string fingerprint;  // of its files when they were read
  };
  struct Served {
    std::string folder;                         // its identity: its path
    std::vector<Version> versions;              // newest first, at least one
    std::map<std::string, std::string> labels;  // and their versions
  };
  struct Folder {
    std::string fingerprint;                    // when it was last looked at
    std::vector<bundle::LoadFailure> failures;  // what is not served, and why
    std::string served_as;                      // the last name that it was served by; may be empty
  };
  // What a folder offers now.
  struct Found {
    std::vector<Version> versions;  // newest first
    v1::ServingPolicy policy;
    std::map<std::string, std::string> labels;
    std::vector<bundle::LoadFailure> failures;
    absl::Status fault;  // why it must not take the place of what is served
  };
  using Models = std::map<std::string, Served>;

  // Loads what changed in `folder` and serves it.
  absl::Status Update(const bundle::ModelFolder& folder,
                      const std::function<bool()>& stopped = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(load_mutex_);
  // The version, loaded unless models are loaded on demand.
  absl::StatusOr<ServedModelPtr> LoadVersion(const std::string& name,
                                             const bundle::VersionFolder& folder);
  Found Look(const bundle::ModelFolder& folder, const Served& before,
             const std::function<bool()>& stopped);
  // Labels of the policy whose versions were found; the others are failures.
  void TakeLabels(const std::string& name, const Served& before, Found& found);
  static std::vector<Version>::const_iterator FindVersion(const std::vector<Version>& versions,
                                                          const std::string& number);
  // The path of the folder that is served by a name, or was; empty if none is known to have been.
  std::string FolderServedAs(const std::string& name) const;
  // Serves from now on what was found, and nothing else of the folder. AlreadyExists if another
  // folder's model has its name.
  absl::Status Serve(const std::string& folder, Found& found);
  void Forget(const std::string& folder);
  void Tell(const std::string& model, const std::string& version) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  Models::const_iterator FindByFolder(const std::string& folder) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  static void AddLabels(const Served& served, v1::ModelSummary& summary);
  std::string Names() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const ModelPaths paths_;
  ModelLoader loader_;
  absl::Mutex load_mutex_;  // held while models load
  mutable absl::Mutex mutex_;
  Models models_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Folder> folders_ ABSL_GUARDED_BY(mutex_);  // by path
  std::set<std::string> announced_ ABSL_GUARDED_BY(mutex_);
  ServingObserver serving_observer_ ABSL_GUARDED_BY(mutex_);
  mutable std::atomic<uint64_t> num_uses_{0};
  std::unique_ptr<DemandLoader> demand_;  // null unless models are loaded on demand
};

// WithModel: the way of a call to its model, which may have to be loaded first.

// Calls `go` once with the request when Lookup finds its model in memory, at once where models are
// not loaded on demand; with an error if the model can't be loaded before `deadline`. `Request` has
// the members model() and version(). `go` must be copyable and must not wait.
template <typename Request, typename Go>
void WithModel(const ModelRegistry& models, absl::StatusOr<Request> request, absl::Time deadline,
               Go go) {
  if (!request.ok() || !models.on_demand()) {
    go(std::move(request));
    return;
  }
  const auto held = std::make_shared<absl::StatusOr<Request>>(std::move(request));
  models.Await((*held)->model(), (*held)->version(), deadline,
               [held, go = std::move(go)](const absl::Status& status) mutable {
                 if (!status.ok()) {
                   *held = status;
                 }
                 go(std::move(*held));
               });
}

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_MODEL_REGISTRY_H_
