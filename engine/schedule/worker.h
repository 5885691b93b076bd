// Worker: the requests of one engine thread (continuous batching): requests that wait for their
// encoder, and running ones, by model. The supervisor looks after workers whose encoder run or step
// takes long. Such a worker keeps its slow model alone (KeepOnly): another worker gets the other
// models, and further requests of the slow model are handed over to it.
//
// All requests of a driver take their steps together, so a request with many rows makes every step
// long, and so do many requests of one client, and a request with a pattern, whose states may take
// long to find. A model therefore has two drivers, the second one for these wide requests, and they
// take turns by time: while both have work, encoder runs and steps of wide requests have a third of
// it, or less if narrow ones have more rows. For a moment after its last step the narrow driver
// counts as one with work: a client that makes one call after the other is about to make the next
// one. Where weights come from memory, a step of more rows is hardly longer, and all rows share it.
// Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_SCHEDULE_WORKER_H_
#define BEAMWRIGHT_ENGINE_SCHEDULE_WORKER_H_

#include <array>
#include <compare>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "engine/queue/admission.h"
#include "engine/queue/encode_queue.h"
#include "engine/request/quarantine.h"
#include "engine/request/request.h"
#include "engine/schedule/encode.h"

namespace beamwright::engine {

// Used by one thread; HandOver, Stop, has_ended and Look may be called on any.
class Worker {
 public:
  using Requests = std::vector<std::unique_ptr<Request>>;

  // What it is given must outlive it.
  Worker(const EngineOptions& options, Admission& admission, Quarantine& quarantine);
  // Before its first turn, on its thread: measures that thread's work (null: does not).
  void Profile(StepProfile* profile);

  Reserved Running() const;
  // When a turn is due if no request or frame arrives before.
  absl::Time next_work() const;
  // Threads of its turns from the next one on; at first an equal part of all.
  void SetThreads(int threads) { context_.num_threads = threads; }
  int num_threads() const { return context_.num_threads; }
  // Takes in what was admitted, encodes some of what waits, and steps every model once. `end`: as
  // Admission::Take gave it.
  void Turn(Requests admitted, const absl::Status& end);

  // Whether it has one slow model alone.
  bool is_alone() const { return is_alone_; }
  // For a worker that is alone: takes requests that were handed over, and waits for them while it
  // has no other work. False: the thread is to end, since none came for a while. `end`: as for
  // Turn.
  bool TakeHandedOver(Requests& admitted, absl::Status& end);
  // The last call of its thread.
  void SetEnded();

  // For any thread: takes a request of the model that the worker has alone. False: it has another.
  bool HandOver(std::unique_ptr<Request>& request);
  // The thread is not to wait for requests any more.
  void Stop();
  bool has_ended() const;
  // Looks at the run that is under way. If it takes long, cancelled and expired requests of this
  // worker are answered now, and all of them when `end` is not OK. A run without waiting requests
  // is interrupted; after slow_step also a run with an answered request, which the remaining
  // requests repeat without it; and after step_timeout any run. Calls `slow`, under the lock of the
  // run, if it takes longer than slow_step and the worker is not alone.
  void Look(absl::Time now, const absl::Status& end,
            absl::FunctionRef<void(const DecodeModel&)> slow);
  // For `slow`: moves requests and drivers of other models to `rest`, which must be new; the worker
  // is alone with `model` from now on.
  void KeepOnly(const DecodeModel& model, Worker& rest);

 private:
  // As much as may be encoded between two steps. Of wide requests less, if it is their turn.
  void EncodeSome();
  // At most `positions` source positions of these, and one source in any case.
  void EncodeSome(EncodeQueue& queue, int64_t positions);
  // The groups whose turn it is, of one model: one, or, where several threads can take one each,
  // those of at most `positions` source positions.
  std::vector<EncodeGroup> TakeGroups(EncodeQueue& queue, int64_t positions);
  // Requests that it does not fail join the running ones.
  void EncodeGroups(absl::Span<EncodeGroup> groups);
  void Join(const std::shared_ptr<const DecodeModel>& model, Requests ready);
  // The key of a driver: its requests are stepped together.
  struct Key {
    const DecodeModel* model = nullptr;
    bool is_wide = false;
    auto operator<=>(const Key& other) const = default;
  };
  bool IsWide(const Request& request) const;
  Driver& DriverOf(std::shared_ptr<const DecodeModel> model, bool is_wide);
  // When wide requests of the model may run: when narrow ones have had their share of the time, or
  // have nothing to do and are not about to come again. In the infinite future: narrow ones have
  // work.
  absl::Time TurnOfWide(const DecodeModel* model, absl::Time now) const;
  // Requests of a driver ran for this time, with `rows` rows.
  void Charge(const Key& key, absl::Duration took, int rows);
  void Step(const Key& key, Driver& driver);
  void StepAll();
  // Ends all requests taken so far; queued requests are taken in the next turns and ended as well.
  void EndAll(const absl::Status& why);
  // Whether a run has requests that are answered already, and requests that still wait.
  struct Left {
    bool gone = false;
    bool there = false;
  };
  // Answers requests of this worker while a run is under way.
  Left AnswerMeanwhile(const Underway::Work& work, absl::Time now, const absl::Status& end);

  void LookAtRun(absl::Time now, const absl::Status& end,
                 absl::FunctionRef<void(const DecodeModel&)> slow);
  // Answers the dead requests of the inbox, or all of them when `end` is not OK.
  void LookAtInbox(absl::Time now, const absl::Status& end);
  // Reports the worker's load to Admission. Requests of the inbox hold no rows.
  void Report(const Reserved& running) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EngineOptions& options_;
  Admission& admission_;
  Quarantine& quarantine_;
  Underway underway_;
  ops::ExecutionContext context_;         // of all that it computes
  std::array<EncodeQueue, 2> to_encode_;  // narrow requests, wide ones
  Reserved encoding_;                     // what is in the encoder runs under way
  std::map<Key, std::unique_ptr<Driver>> drivers_;
  // Of a model with wide requests: the time that narrow ones have before the next run for wide
  // ones, when the last such run ended, and when the last one for narrow requests did.
  struct Debt {
    absl::Duration owed;
    absl::Time since;
    absl::Time narrow_ended;
  };
  std::map<const DecodeModel*, Debt> debts_;
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
