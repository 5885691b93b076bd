// ServedModel: a version of a model that clients may name. It is in memory from the load to the end
// of service or, with --model-control on-demand, from the first call that needs it until another
// model needs its memory.
#ifndef BEAMWRIGHT_SERVER_SERVING_SERVED_MODEL_H_
#define BEAMWRIGHT_SERVER_SERVING_SERVED_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/repository.h"
#include "engine/model/decode_model.h"

namespace beamwright::serving {

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

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SERVED_MODEL_H_
