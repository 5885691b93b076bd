// Admission: where callers' threads meet the engine's. Callers queue requests here, or are refused
// at once; between two steps the engine's workers take what fits in addition to what runs. Which
// request is next, and whether it fits, is the queue's (request_queue.h); Admission has the lock,
// the clock, what each worker's requests take, and which workers wait. It starts no request.
#ifndef BEAMWRIGHT_ENGINE_QUEUE_ADMISSION_H_
#define BEAMWRIGHT_ENGINE_QUEUE_ADMISSION_H_

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/queue/request_queue.h"
#include "engine/request/engine_options.h"
#include "engine/request/request.h"
#include "engine/request/tenant.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {

// Thread-safe.
class Admission {
 public:
  using Requests = std::vector<std::unique_ptr<Request>>;

  // The time of forecasts and sweeps.
  using Clock = absl::Time (*)();

  explicit Admission(const EngineOptions& options, Clock clock = SteadyNow);

  // Moves from `request` unless it refuses: ResourceExhausted if there is no room or its deadline
  // would be missed, Unavailable while draining.
  absl::Status Enqueue(std::unique_ptr<Request>& request);

  // The refusal that Enqueue gives every request while the queue is full; OK if there may be room.
  // Costs an atomic load while there is room, so that it can be called before a request is
  // prepared.
  absl::Status CheckFull() const;

  // Refuses requests from now on, and returns when all accepted ones are answered.
  void Drain();

  // Running and queued requests are to end at once, with this error.
  void End(absl::Status why);

  // For the thread of stream number `stream`: adds to `admitted` what fits in addition to all that
  // runs, and no more than the stream's share of it, so that all streams have as much to do; and
  // answers cancelled and expired requests of the queue. Waits while the stream has nothing
  // to do. False: it ends. running: what the stream's requests take; at `next_work` one of them has
  // something to do; `end` is what End gave, OK before.
  bool Take(int stream, const Reserved& running, absl::Time next_work, Requests& admitted,
            absl::Status& end);
  bool Take(int stream, const Reserved& running, Requests& admitted, absl::Status& end) {
    return Take(stream, running, absl::InfinitePast(), admitted, end);
  }
  // Threads for the turn that the stream begins: an equal part, and one of the remainder for the
  // first ones. Where streams are as work is, parts are of those that have work; what another one
  // took for a turn before that is free when its turn ends.
  int Threads(int stream);
  // Wakes the streams that wait: a running request has work again, new frames for example.
  void Ring();
  // Answers cancelled and expired requests of the queue, also while all streams are busy with
  // the requests that they run. For any thread, now and then.
  void LookForDead();

  // The stream's thread was replaced by a new one, which runs `running`.
  void Restart(int stream, const Reserved& running);
  // What the requests of a worker with one slow model (engine/schedule/worker.h) take, in addition
  // to those of the streams; no requests: the worker is forgotten.
  void SetApart(const void* worker, const Reserved& running);
  // The error of End; OK before End.
  absl::Status end() const {
    absl::MutexLock lock(&mutex_);
    return end_;
  }

  EngineLoad load() const;
  // As Engine::idle.
  bool idle() const { return num_open_.load() == 0; }
  std::vector<TenantLoad> Tenants() const;

 private:
  struct Stream {
    Reserved running;
    absl::Time turn_started = absl::InfiniteFuture();  // infinite: it waits
    int threads = 0;                                   // of the turn
    uint64_t seen = 0;                                 // news when it looked into the queue last
  };
  // Stores what the stream's requests take. Less than before is news: other streams may have looked
  // for room since its requests ended, and it may be a stream that takes no more work itself.
  void SetRunning(Stream& stream, const Reserved& running) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The number of streams that there is work for: the first ones. The others take no requests.
  int NumActive() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sleeps until next_work, or until there is news.
  void WaitForWork(int number, absl::Time next_work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fill(int number, Requests& admitted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Reserved AllRunning() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RequestQueue::Moment MomentAt(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For the thread of stream number `stream`: one of its requests whose source arrives needs `more`
  // bytes, or gives bytes back (negative). False: there is no room for more.
  bool Reserve(int stream, int64_t more);
  bool IsDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The queue is full, by its number of requests: `refusal` is what CheckFull says, until one is
  // taken out, or the next sweep might.
  void SetFull(const absl::Status& refusal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetNotFull() { full_until_ns_.store(0, std::memory_order_relaxed); }
  // Moves those that are dead out of the queue, for the engine's thread to answer. Looks at all
  // that wait, so not at every turn.
  void Sweep(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stream number `stream` takes it. From now on the request's end gives back what it holds of its
  // tenant's share, teaches the estimator, and is reported to the observer.
  void CountIn(int stream, Request& request, const RequestQueue::Share& share)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It is about to be answered; `begin`: when it was taken.
  template <typename Answer>
  void CountOut(const Request& request, const RequestQueue::Share& share,
                const absl::StatusOr<Answer>& answer, absl::Time begin);
  void TellEnd(const Request& request, absl::StatusCode code, absl::Time now) const;
  void Learn(const Request& request, const absl::StatusOr<v1::Decoded>& decoded,
             absl::Duration took);
  // The steps of a given target are known beforehand.
  void Learn(const Request&, const absl::StatusOr<v1::Scored>&, absl::Duration) {}

  const EngineOptions options_;
  const Clock clock_;
  std::atomic<int> num_open_{0};  // accepted and not answered
  mutable absl::Mutex mutex_;
  RequestQueue queue_ ABSL_GUARDED_BY(mutex_);
  Requests dead_ ABSL_GUARDED_BY(mutex_);       // from the queue, to be answered
  int num_ending_ ABSL_GUARDED_BY(mutex_) = 0;  // of them, that are being answered
  absl::Time next_sweep_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  std::vector<Stream> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<const void*, Reserved> apart_ ABSL_GUARDED_BY(mutex_);
  // Of CheckFull: time since the epoch, and the refusal.
  std::atomic<int64_t> full_until_ns_{0};
  mutable absl::Mutex full_mutex_ ABSL_ACQUIRED_AFTER(mutex_);
  absl::Status full_ ABSL_GUARDED_BY(full_mutex_);
  uint64_t news_ ABSL_GUARDED_BY(mutex_) = 1;  // counts what may let a request run that could not
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_QUEUE_ADMISSION_H_
