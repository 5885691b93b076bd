// Worker: what one engine thread works on: requests that wait for their encoder, and those that are
// stepped, by model. The supervisor looks after workers whose encoder run or step takes long. Such
// a worker keeps its slow model alone (KeepOnly): another one gets the other models, and further
// requests of the slow model are handed over to it.
//
// All requests of a driver take their steps together, so one with many rows makes every step long,
// and so does one with a pattern, whose states may take long to find. A model therefore has two
// drivers, the second one for these wide requests, and they take turns by time: while both have
// work, wide steps have a third of it, or less if narrow ones have more rows. Where weights come
// from memory, a step of more rows is hardly longer, and all rows share it. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_SCHEDULE_WORKER_H_
#define BEAMWRIGHT_ENGINE_SCHEDULE_WORKER_H_

#include <compare>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "engine/queue/admission.h"
#include "engine/queue/encode_queue.h"
#include "engine/request/driver.h"
#include "engine/request/quarantine.h"
#include "engine/request/underway.h"
#include "engine/schedule/encode.h"

namespace beamwright::engine {

// Of one thread, but for HandOver, Stop, has_ended and Look.
class Worker {
 public:
  using Requests = std::vector<std::unique_ptr<Request>>;

  // What it is given must outlive it. interruption: as Underway's parent.
  Worker(const EngineOptions& options, Admission& admission, Quarantine& quarantine,
         const Interruption* interruption);

  Reserved Running() const;
  // When there is something to do about it if nothing happens until then.
  absl::Time next_work() const;
  // What its thread's work must look at.
  const Interruption* interruption() { return &underway_.interruption(); }
  // From its next turn on; before, an equal part of all.
  void SetThreads(int threads) { context_.num_threads = threads; }
  int num_threads() const { return context_.num_threads; }
  // Takes in what was admitted, encodes some of what waits, and steps every model once. `end`: as
  // Admission::Take gave it.
  void Turn(Requests admitted, const absl::Status& end);

  // It has one model, and other workers go on without it.
  bool is_alone() const { return is_alone_; }
  // Of one that is alone: takes requests that were handed over, and waits for them while there is
  // nothing else to do. False: its thread is to end, since none came for a while. `end`: as for
  // Turn.
  bool TakeHandedOver(Requests& admitted, absl::Status& end);
  // The last call of its thread.
  void SetEnded();

  // For any thread: takes a request of the model that it has alone. False: it has no such model.
  bool HandOver(std::unique_ptr<Request>& request);
  // Its thread is to wait for requests no longer.
  void Stop();
  bool has_ended() const;
  // Looks at the run that is under way. If it takes long, requests of this worker that are past
  // their deadline or cancelled get their answer now, as all do when `end` is not OK. A run without
  // waiting requests is interrupted; so is, after slow_step, one that a request has left, for the
  // others to repeat it without them; and after step_timeout any. Calls `slow`, under the lock of
  // the run, if it takes longer than slow_step and the worker is not alone.
  void Look(absl::Time now, const absl::Status& end,
            absl::FunctionRef<void(const DecodeModel&)> slow);
  // For `slow`: moves all that is not of `model` to `rest`, which must be new, and is alone from
  // now on.
  void KeepOnly(const DecodeModel& model, Worker& rest);

 private:
  // As much as may be encoded between two steps, and one source in any case.
  void EncodeSome();
  // The groups whose turn it is, of one model: one, or, where several threads can take one each,
  // those of at most `positions` source positions.
  std::vector<EncodeGroup> TakeGroups(int64_t positions);
  // Requests that it does not fail join the running ones.
  void EncodeGroups(absl::Span<EncodeGroup> groups);
  void Join(const std::shared_ptr<const DecodeModel>& model, Requests ready);
  // What is stepped together.
  struct Key {
    const DecodeModel* model = nullptr;
    bool is_wide = false;
    auto operator<=>(const Key& other) const = default;
  };
  bool IsWide(const Request& request) const;
  Driver& DriverOf(std::shared_ptr<const DecodeModel> model, bool is_wide);
  // Whether it is the driver's turn.
  bool MayStep(const Key& key, absl::Time now) const;
  void Step(const Key& key, Driver& driver);
  void StepAll();
  // Ends all that was taken so far; what waits is taken in the next turns, and ended as well.
  void EndAll(const absl::Status& why);
  // Who is in a run: requests that have their answer, requests that have none.
  struct Left {
    bool gone = false;
    bool there = false;
  };
  // Answers requests of this worker while a run is under way.
  Left AnswerMeanwhile(const Underway::Work& work, absl::Time now, const absl::Status& end);

  void LookAtRun(absl::Time now, const absl::Status& end,
                 absl::FunctionRef<void(const DecodeModel&)> slow);
  // Requests that were handed over and wait: those that are dead are answered, or all.
  void LookAtInbox(absl::Time now, const absl::Status& end);
  // Reports what it has to the admission. Requests of the inbox wait: they hold no rows.
  void Report(const Reserved& running) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EngineOptions& options_;
  Admission& admission_;
  Quarantine& quarantine_;
  Underway underway_;
  ops::ExecutionContext context_;
  EncodeQueue to_encode_;
  Reserved encoding_;  // what is in the encoder runs under way
  std::map<Key, std::unique_ptr<Driver>> drivers_;
  // By model: the time that its narrow requests are stepped for before its wide ones' next step.
  std::map<const DecodeModel*, absl::Duration> owed_;
  bool is_alone_ = false;  // set by KeepOnly, while its thread is in an Underway::Scope

  mutable absl::Mutex mutex_;  // taken after that of underway_
  // Of one that is alone, and takes more requests: its model.
  const DecodeModel* own_model_ ABSL_GUARDED_BY(mutex_) = nullptr;
  EncodeQueue inbox_ ABSL_GUARDED_BY(mutex_);  // requests that were handed over
  Reserved reported_ ABSL_GUARDED_BY(mutex_);  // without the inbox
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_SCHEDULE_WORKER_H_
