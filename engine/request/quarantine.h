// Quarantine: the circuit breaker of all models. It takes a model out of service that fails again
// and again, or that hangs, so that clients go elsewhere at once instead of waiting for the next
// failure, and lets it try again after a pause. Two rules:
//
//   failed  `failures` sources of text in a row, with none decoded between them, ended by fault of
//           the model (INTERNAL). A server counts how the sources of its calls end.
//   hung    A run of the model's graph (an encoder run or a step) took step_timeout, or kGivenUp
//           runs in a row were given up after slow_step, because all that waited for them had left,
//           with no source of the model decoded between them. The engine reports such runs.
//
// After the pause one more failure, or one more run that is given up, takes the model out again. A
// source that is decoded meanwhile ends the pause.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_QUARANTINE_H_
#define BEAMWRIGHT_ENGINE_REQUEST_QUARANTINE_H_

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
#include "engine/request/engine_options.h"

namespace beamwright::engine {

// Of all models, by name and version. Thread-safe; times are given.
class Quarantine {
 public:
  static constexpr int kGivenUp = 3;

  explicit Quarantine(const QuarantineOptions& options) : options_(options) {}

  // Unavailable, with the time to wait, while the model is out; CheckHung: while it is out because
  // it hung. Next to nothing while no model has a record.
  absl::Status Check(const DecodeModel& model, absl::Time now) const;
  absl::Status CheckHung(const DecodeModel& model, absl::Time now) const;

  // When the version's pause ends or has ended; InfinitePast if it has none.
  absl::Time BackAt(const std::string& model, const std::string& version) const;

  // Calls `observer` when a pause begins, is renewed or ends early. why: what a model did that goes
  // out, for the log; empty where none does. Null ends that, and waits for a call that runs. It
  // must not block, nor call Observe.
  using Observer = std::function<void(const DecodeModel& model, const std::string& why)>;
  void Observe(Observer observer);
  absl::Duration pause() const { return options_.pause; }

  // How the sources of a call ended.
  void Count(const DecodeModel& model, int decoded, int failed, absl::Time now);

  // The engine has decoded a source.
  void Decoded(const DecodeModel& model) {
    if (num_records_.load(std::memory_order_relaxed) > 0) {
      EndHang(model);
    }
  }
  // A run was given up after slow_step, or took step_timeout. True: the model is out from now on.
  bool GivenUp(const DecodeModel& model, absl::Time now) { return CountRuns(model, 1, now); }
  bool TimedOut(const DecodeModel& model, absl::Time now) {
    return CountRuns(model, kGivenUp, now);
  }

 private:
  // Of a model that failed or hung since its last source was decoded.
  struct Record {
    int failures = 0;  // in a row
    int given_up = 0;  // runs, in a row
    bool hung = false;
    absl::Time until = absl::InfinitePast();
  };
  using Key = std::pair<std::string, std::string>;

  absl::Status Refusal(const DecodeModel& model, absl::Time now, bool only_hung) const;
  bool CountRuns(const DecodeModel& model, int given_up, absl::Time now);
  void EndHang(const DecodeModel& model);
  void Forget(std::map<Key, Record>::iterator record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Record& RecordOf(const DecodeModel& model) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(const DecodeModel& model, const std::string& why) ABSL_LOCKS_EXCLUDED(mutex_);

  const QuarantineOptions options_;
  std::atomic<int> num_records_{0};
  mutable absl::Mutex mutex_;
  std::map<Key, Record> records_ ABSL_GUARDED_BY(mutex_);
  // Taken before mutex_: observers ask.
  absl::Mutex observer_mutex_;
  Observer observer_ ABSL_GUARDED_BY(observer_mutex_);
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_QUARANTINE_H_
