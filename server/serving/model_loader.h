// From a version's folder to a model that is served. ServedModel is a version of a model that
// clients may name; ModelLoader makes one out of its folder, or says why it can't: reads and checks
// the files, compiles, replays golden requests and warms up, within a budget of memory over all
// models.
#ifndef BEAMWRIGHT_SERVER_SERVING_MODEL_LOADER_H_
#define BEAMWRIGHT_SERVER_SERVING_MODEL_LOADER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/repository.h"
#include "engine/model/decode_model.h"

namespace beamwright::serving {

// ServedModel: a version of a model that clients may name. It is in memory from the load to the end
// of service or, with --model-control on-demand, from the first call that needs it until another
// model needs its memory.

using ModelPtr = std::shared_ptr<const engine::DecodeModel>;

// Thread-safe.
class ServedModel {
 public:
  // In memory for as long as this lives.
  explicit ServedModel(ModelPtr model);
  // Not in memory yet. `bytes`: size of its files.
  ServedModel(bundle::BundleHead head, bundle::VersionFolder folder, int64_t bytes);

  const std::string& name() const { return head_.name; }
  const std::string& version() const { return head_.version; }
  const v1::ModelConfig& config() const {
    return is_on_demand() ? head_.config : pinned_->config();
  }
  bool is_on_demand() const { return pinned_ == nullptr; }
  const bundle::VersionFolder& folder() const { return folder_; }
  int64_t bytes() const { return bytes_; }

  // Null while it is not in memory.
  ModelPtr model() const;
  // The same for a call: the number of the use (of all models, ascending) decides which model
  // leaves first.
  ModelPtr Use(uint64_t number) const;
  // Why the last load failed; OK after a good one. For operators: it may name paths.
  absl::Status failure() const;
  // What a call gets after a failed load until `now` is late enough for another try: Unavailable
  // with the time to wait.
  absl::Status CheckPause(absl::Time now) const;

  // What the DemandLoader changes. Fail: no load is tried before `until`.
  void Put(ModelPtr model);
  void Fail(absl::Status why, absl::Time until);
  // Takes the model out of memory unless a call holds it; false: one does, or it is not in memory.
  bool Evict();

  uint64_t last_use() const;
  // True if a call holds the model.
  bool in_use() const;

 private:
  bool HasCalls() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return model_ != nullptr && model_.use_count() > 1;
  }

  bundle::BundleHead head_;
  const ModelPtr pinned_;  // null of one on demand
  const bundle::VersionFolder folder_;
  const int64_t bytes_ = 0;
  mutable absl::Mutex mutex_;
  ModelPtr model_ ABSL_GUARDED_BY(mutex_);
  mutable uint64_t last_use_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  absl::Time retry_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

using ServedModelPtr = std::shared_ptr<ServedModel>;

// A model in memory, as the choice of those that leave sees it.
struct Resident {
  int64_t bytes = 0;
  uint64_t last_use = 0;
  bool in_use = false;
};

// Indices of the residents that leave so that at least `bytes` become free: those that no call
// holds, the least recently used first, and no more of them than it takes. Null: too few are idle.
std::optional<std::vector<size_t>> ChooseVictims(absl::Span<const Resident> residents,
                                                 int64_t bytes);

struct LoadOptions {
  engine::CompileOptions compile;
  // Most bytes of the files of all versions in memory; 0: what the machine and the cgroup have.
  int64_t max_model_bytes = 0;
  // Models are loaded when calls need them, and leave when others do (demand_loader.h).
  bool on_demand = false;
  // Folders that links of models' files may lead into, in addition to the model's.
  std::vector<std::string> allow_links;
  // Requests of a bundle's golden.jsonl that are replayed; 0: none.
  int golden_requests = 100;
  // Requests of a bundle's warmup.jsonl are decoded, and made-up sources in batches of up to so
  // many rows; 0: neither.
  int warm_up_rows = 0;
  // A load that still runs graphs after that is given up.
  absl::Duration timeout = absl::Minutes(5);
  // Whether the server is stopping, which ends a load at once. May be null.
  std::function<bool()> stopped;
  // Notified of every version that was tried: its model, whether it is good, how long it took; and
  // of what keeps versions from being tried, as no good one. May be null.
  std::function<void(const std::string& model, bool good, absl::Duration)> observer;
  // Notified of each model that leaves memory for another one. May be null.
  std::function<void(const std::string& model)> evicted;
};

// Thread-safe; loads one at a time.
class ModelLoader {
 public:
  explicit ModelLoader(LoadOptions options) : options_(std::move(options)) {}

  // Version `folder` of a model in the folder `model_name`. One log line for either outcome.
  // ResourceExhausted naming the sum if it does not fit in addition to what is in memory, versions
  // that still finish requests included; errors as LoadBundle's, DecodeModel::Compile's and
  // ReplayGolden's.
  absl::StatusOr<ModelPtr> Load(const std::string& model_name, const bundle::VersionFolder& folder);

  // What the bundle says of itself, without its graphs. Logged where it fails.
  absl::StatusOr<bundle::BundleHead> ReadHead(const std::string& model_name,
                                              const bundle::VersionFolder& folder) const;
  const LoadOptions& options() const { return options_; }
  // Most bytes of files of all versions together; 0: no limit is known. On demand, by default, a
  // third of what machine and cgroup have: a model takes more memory than its files, and calls need
  // some.
  int64_t capacity() const;
  // Bytes of the files of the versions in memory.
  int64_t Held();

  // Logs and reports to the observer what keeps a version of a model from being tried, or, if
  // `version` is empty, all of them.
  void Refuse(const std::string& model_name, const std::string& version,
              const absl::Status& reason) const;

 private:
  struct InMemory {
    std::weak_ptr<const engine::DecodeModel> model;
    int64_t bytes = 0;
  };

  // Make, if the files fit into the budget and the memory suffices.
  absl::StatusOr<ModelPtr> MakeWithin(int64_t bytes, const bundle::VersionFolder& folder)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<ModelPtr> Make(const bundle::VersionFolder& folder) const;
  absl::StatusOr<ModelPtr> ReadAndCompile(const std::string& path,
                                          const Interruption* interruption) const;
  void Tell(const std::string& model_name, bool good, absl::Duration took) const;
  absl::Status CheckBudget(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t HeldLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LoadOptions options_;
  absl::Mutex mutex_;
  std::vector<InMemory> in_memory_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_MODEL_LOADER_H_
