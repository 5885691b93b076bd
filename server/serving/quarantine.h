// Quarantine: takes a model out of service that fails again and again, so that clients go elsewhere
// at once instead of waiting for the next failure, and lets it try again after a while.
#ifndef BEAMWRIGHT_SERVER_SERVING_QUARANTINE_H_
#define BEAMWRIGHT_SERVER_SERVING_QUARANTINE_H_

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/model/decode_model.h"

namespace beamwright::serving {

struct QuarantineOptions {
  // Sources of text in a row, with none decoded between them, that failed by fault of the model
  // (INTERNAL); 0: a model is never taken out, not even one that hangs.
  int failures = 32;
  // Until it may try again. One source that is decoded then ends it, one that fails renews it.
  absl::Duration pause = absl::Seconds(10);
};

// Of all models, by name and version. Thread-safe; times are given.
class Quarantine {
 public:
  explicit Quarantine(const QuarantineOptions& options) : options_(options) {}

  // Unavailable, with the time to wait, while the model is taken out.
  absl::Status Check(const engine::DecodeModel& model, absl::Time now) const;

  // When the version's pause ends or has ended; InfinitePast if it has none.
  absl::Time BackAt(const std::string& model, const std::string& version) const;
  // Notifies `observer` when a pause begins, is renewed or ends early. Null ends that.
  void Observe(std::function<void()> observer);

  // The model's graph does not come to an end (engine/hangs.h): it is out from now on.
  void TakeOut(const engine::DecodeModel& model, absl::Time now);

  // How the sources of a call ended.
  void Count(const engine::DecodeModel& model, int decoded, int failed, absl::Time now);

 private:
  struct Failures {
    int failures = 0;  // in a row
    bool hangs = false;
    absl::Time until = absl::InfinitePast();
  };
  using Key = std::pair<std::string, std::string>;

  void TellObserver();
  // True if a pause has begun, is renewed or has ended early.
  bool Record(const engine::DecodeModel& model, int decoded, int failed, absl::Time now);

  const QuarantineOptions options_;
  mutable absl::Mutex mutex_;
  std::map<Key, Failures> records_ ABSL_GUARDED_BY(mutex_);  // of models that fail
  std::function<void()> observer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_QUARANTINE_H_
