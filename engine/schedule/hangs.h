// Hangs: which models do not come to an end, and are out of service for that. The rule: a run of
// the model's graph (an encoder run or a step) that takes step_timeout, or kGivenUp runs in a row
// that were given up after slow_step because of those who waited no longer, with no source of the
// model decoded between them. After hang_pause the model may try again; a single run that is given
// up then takes it out once more.
#ifndef BEAMWRIGHT_ENGINE_SCHEDULE_HANGS_H_
#define BEAMWRIGHT_ENGINE_SCHEDULE_HANGS_H_

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/model/decode_model.h"

namespace beamwright::engine {

// Of all models, by name and version. Thread-safe; times are given.
class Hangs {
 public:
  static constexpr int kGivenUp = 3;

  // pause: how long a model is out; zero: none ever is.
  explicit Hangs(absl::Duration pause) : pause_(pause) {}

  // A source is decoded. Next to nothing while no model hangs.
  void Decoded(const DecodeModel& model) {
    if (num_records_.load(std::memory_order_relaxed) > 0) {
      Forget(model);
    }
  }
  // A run was given up after slow_step, or took step_timeout. True: the model is out from now on.
  bool GivenUp(const DecodeModel& model, absl::Time now) { return Count(model, 1, now); }
  bool TimedOut(const DecodeModel& model, absl::Time now) { return Count(model, kGivenUp, now); }

  // Unavailable, with the time to wait, while the model is out.
  absl::Status Check(const DecodeModel& model, absl::Time now) const;

  // Calls `observer` for each model that goes out; null ends that. It must return at once.
  void Observe(std::function<void(const DecodeModel&)> observer);

 private:
  struct Record {
    int given_up = 0;  // in a row
    absl::Time until = absl::InfinitePast();
  };
  using Key = std::pair<std::string, std::string>;

  bool Count(const DecodeModel& model, int given_up, absl::Time now);
  void Forget(const DecodeModel& model);

  const absl::Duration pause_;
  std::atomic<int> num_records_{0};
  mutable absl::Mutex mutex_;
  std::map<Key, Record> records_ ABSL_GUARDED_BY(mutex_);
  absl::Mutex observer_mutex_;
  std::function<void(const DecodeModel&)> observer_ ABSL_GUARDED_BY(observer_mutex_);
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_SCHEDULE_HANGS_H_
