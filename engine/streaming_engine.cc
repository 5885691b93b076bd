// The engine behind engine.h: admission in front of schedulers, which run the threads that decode,
// and a supervisor's thread, which looks after what the schedulers' workers run.
//
// 1. A call (Decode, Recognize, Score) goes through Accept on the caller's thread: is the queue
//    full, make the request (its source is checked and prepared here), enqueue it. Whatever fails
//    is answered at once; a lack of memory is an answer like any other.
// 2. Workers of the schedulers take requests from Admission, run them step by step and answer them
//    on their own threads.
// 3. Look, every 20 ms while there are requests: answers those that expired or were cancelled in
//    the queue, and lets each scheduler look at its worker: a step that takes too long is reported,
//    and at last the model is put into quarantine. Without requests the supervisor sleeps until
//    WakeSupervisor.
//
// Drain waits for the requests that were accepted, End answers them. Engine::Start checks the
// options and fills in those that depend on the machine.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "engine/queue/admission.h"
#include "engine/request/prepared_source.h"
#include "engine/request/quarantine.h"
#include "engine/request/request.h"
#include "engine/request/saved_state.h"
#include "engine/schedule/worker.h"
#include "engine/status/fault.h"
#include "include/beamwright/engine.h"
#include "ops/base/cpu.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/base/threads.h"
#include "ops/kernels/team.h"

namespace beamwright::engine {
namespace {

// Scheduler: the engine's threads that share one place in the admission. One thread with a Worker
// at first, in a loop: take admitted requests (Take), run a turn (Worker::Turn), until the engine
// ends.
//
// When an encoder run or a step takes longer than slow_step, Look splits it off (Split): the worker
// keeps that model alone, and a new thread with a new worker serves the others. Requests of the
// slow model go to its worker from then on (HandOver). Its thread ends when it has had nothing to
// do for a while, and is joined at the next split, or at the end.
//
// Turns run inside a parallel region of OpenMP (Team::Within) that stays open from turn to turn,
// since it costs time to begin one. It is begun anew only when the worker gets more threads than it
// has.
class Scheduler {
 public:
  // What it is given must outlive it.
  Scheduler(const EngineOptions& options, int number, Admission& admission, Quarantine& quarantine);
  // Once the admission is drained.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Looks after what is under way; for one thread, again and again.
  void Look(absl::Time now, const absl::Status& end);

 private:
  using WorkerPtr = std::shared_ptr<Worker>;
  struct Thread {
    WorkerPtr worker;
    std::thread thread;
  };

  void Run(const WorkerPtr& worker, bool is_first);
  // What the worker does next; false: its thread ends.
  bool Take(Worker& worker, EncodeQueue::Requests& admitted, absl::Status& end);
  // Hands requests of models that a worker has alone over to it, and refuses those of models that
  // are out of service.
  void HandOver(EncodeQueue::Requests& admitted);
  // A new thread takes over what the worker has of other models than `model`. Under the lock of the
  // worker's run.
  void Split(Worker& worker, const DecodeModel& model);

  const EngineOptions& options_;
  const int number_;
  Admission& admission_;
  Quarantine& quarantine_;
  std::atomic<int> num_alone_{0};  // workers
  absl::Mutex mutex_;              // taken after that of a run, and before that of a worker
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mutex_);
};

Scheduler::Scheduler(const EngineOptions& options, int number, Admission& admission,
                     Quarantine& quarantine)
    : options_(options), number_(number), admission_(admission), quarantine_(quarantine) {
  auto worker = std::make_shared<Worker>(options_, admission_, quarantine_);
  absl::MutexLock lock(&mutex_);
  threads_.push_back({worker, std::thread([this, worker] { Run(worker, /*is_first=*/true); })});
}

Scheduler::~Scheduler() {
  std::vector<Thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    threads.swap(threads_);
  }
  for (const Thread& thread : threads) {
    thread.worker->Stop();
  }
  for (Thread& thread : threads) {
    thread.thread.join();
  }
}

void Scheduler::Run(const WorkerPtr& worker, bool is_first) {
  // For top and the like; the threads of its region inherit name and slices.
  pthread_setname_np(pthread_self(), "bw-engine");
  UseUsualTimeSlices();
  {
    absl::MutexLock lock(&mutex_);  // the starting thread has filled the worker
  }
  if (number_ == 0 && is_first) {
    worker->Profile(options_.profile);
  }
  EncodeQueue::Requests admitted;
  absl::Status end;
  bool goes_on = Take(*worker, admitted, end);
  while (goes_on) {
    // The OpenMP region in which the turns run, until the worker has more threads than it: their
    // number may change from turn to turn, and threads that a loop does not ask for sleep.
    const int threads = worker->num_threads();
    Team::Within(threads, [&] {
      do {
        FaultPoint("engine.turn").IgnoreError();  // a delay at most
        worker->Turn(std::move(admitted), end);
        admitted.clear();
        goes_on = Take(*worker, admitted, end);
      } while (goes_on && worker->num_threads() <= threads);
    });
  }
  worker->SetEnded();
}

bool Scheduler::Take(Worker& worker, EncodeQueue::Requests& admitted, absl::Status& end) {
  if (worker.is_alone()) {
    const bool goes_on = worker.TakeHandedOver(admitted, end);
    num_alone_ -= goes_on ? 0 : 1;
    return goes_on;
  }
  if (!admission_.Take(number_, worker.Running(), worker.next_work(), admitted, end)) {
    return false;
  }
  worker.SetThreads(admission_.Threads(number_));
  HandOver(admitted);
  return true;
}

void Scheduler::HandOver(EncodeQueue::Requests& admitted) {
  const absl::Time now = SteadyNow();
  for (auto& request : admitted) {
    if (const absl::Status out = quarantine_.CheckHung(*request->model, now); !out.ok()) {
      request->Fail(out);
      request = nullptr;
    }
  }
  if (num_alone_.load(std::memory_order_relaxed) > 0) {
    absl::MutexLock lock(&mutex_);
    for (auto& request : admitted) {
      for (auto thread = threads_.begin(); request != nullptr && thread != threads_.end();
           ++thread) {
        thread->worker->HandOver(request);  // one of them has the model alone, or none
      }
    }
  }
  admitted.erase(std::remove(admitted.begin(), admitted.end(), nullptr), admitted.end());
}

void Scheduler::Split(Worker& worker, const DecodeModel& model) {
  absl::MutexLock lock(&mutex_);
  const auto ended = std::partition(threads_.begin(), threads_.end(), [](const Thread& thread) {
    return !thread.worker->has_ended();
  });
  for (auto thread = ended; thread != threads_.end(); ++thread) {
    thread->thread.join();
  }
  threads_.erase(ended, threads_.end());
  auto rest = std::make_shared<Worker>(options_, admission_, quarantine_);
  try {
    threads_.reserve(threads_.size() + 1);
    threads_.push_back({rest, std::thread([this, rest] { Run(rest, /*is_first=*/false); })});
  } catch (const std::system_error&) {
    return;  // the machine has no thread to spare: the other models wait
  }
  ++num_alone_;
  worker.KeepOnly(model, *rest);
  admission_.Restart(number_, rest->Running());
}

void Scheduler::Look(absl::Time now, const absl::Status& end) {
  std::vector<WorkerPtr> workers;
  {
    absl::MutexLock lock(&mutex_);
    for (const Thread& thread : threads_) {
      workers.push_back(thread.worker);
    }
  }
  for (const WorkerPtr& worker : workers) {
    worker->Look(now, end, [&](const DecodeModel& model) { Split(*worker, model); });
  }
}

class StreamingEngine : public Engine {
 public:
  explicit StreamingEngine(const EngineOptions& options)
      : options_(options), admission_(options_), quarantine_(options_.quarantine) {
    for (int number = 0; number < options_.MostStreams(); ++number) {
      schedulers_.push_back(std::make_unique<Scheduler>(options_, number, admission_, quarantine_));
    }
    supervisor_.emplace("bw-supervisor", [this] { return Look(); });
  }
  ~StreamingEngine() override {
    Drain();
    supervisor_.reset();
  }

  void DecodeResolved(std::shared_ptr<const DecodeModel> model, v1::Source source,
                      std::shared_ptr<const ResolvedOptions> options, const CallOptions& call,
                      Callback done) override {
    Accept(
        [&]() -> absl::StatusOr<std::unique_ptr<Request>> {
          BW_ASSIGN_OR_RETURN(PreparedSource prepared,
                              PrepareSource(*model, source, options_.state_key));
          return model->search().MakeRequest(options_, model, std::move(prepared), *options, call);
        },
        std::move(done));
  }

  void DecodePrepared(std::shared_ptr<const DecodeModel> model, PreparedSource source,
                      std::shared_ptr<const ResolvedOptions> options, const CallOptions& call,
                      Callback done) override {
    Accept(
        [&] {
          return model->search().MakeRequest(options_, model, std::move(source), *options, call);
        },
        std::move(done));
  }

  void Recognize(std::shared_ptr<const DecodeModel> model,
                 std::shared_ptr<const ResolvedOptions> options, const CallOptions& call,
                 Callback done) override {
    call.feed->SetBell([this] { admission_.Ring(); });
    Accept([&] { return model->search().MakeStreamRequest(options_, model, *options, call); },
           std::move(done));
  }

  void Score(std::shared_ptr<const DecodeModel> model, v1::ScoreSource source,
             const v1::ScoreOptions& options, const CallOptions& call,
             ScoreCallback done) override {
    Accept([&] { return model->search().MakeScoreRequest(options_, model, source, options, call); },
           std::move(done));
  }

  void Drain() override { admission_.Drain(); }
  void End(absl::Status why) override { admission_.End(std::move(why)); }
  Load load() const override {
    Load load = admission_.load();
    if (options_.prefix_cache != nullptr) {
      load.prefix_cache_bytes = options_.prefix_cache->num_bytes();
      load.prefix_tokens = options_.prefix_cache->num_tokens();
      load.cached_prefix_tokens = options_.prefix_cache->num_found();
    }
    return load;
  }
  bool idle() const override { return admission_.idle(); }
  Quarantine& quarantine() override { return quarantine_; }
  std::vector<TenantLoad> Tenants() const override { return admission_.Tenants(); }

 private:
  template <typename Make, typename Done>
  void Accept(const Make& make, Done done) {
    if (absl::Status full = admission_.CheckFull(); !full.ok()) {
      done(std::move(full));
      return;
    }
    absl::StatusOr<std::unique_ptr<Request>> request =
        status::OrOutOfMemory([&]() -> absl::StatusOr<std::unique_ptr<Request>> {
          FaultPoint("engine.accept").IgnoreError();
          return make();
        });
    if (!request.ok()) {
      done(request.status());
      return;
    }
    (*request)->done = std::move(done);
    const absl::Status status = status::OrOutOfMemory([&] { return admission_.Enqueue(*request); });
    if (!status.ok() && *request != nullptr) {  // what was lost on the way has its answer
      (*request)->Fail(status);
    }
    WakeSupervisor();
  }

  // The supervisor's work: looks after the schedulers while there are requests. When to look again.
  absl::Duration Look() {
    constexpr absl::Duration kInterval = absl::Milliseconds(20);
    // Looks without requests until it sleeps: one request after the other does not wake it each
    // time.
    constexpr int kIdleLooks = 50;
    if (admission_.idle()) {
      if (++idle_looks_ < kIdleLooks) {
        return kInterval;
      }
      idle_looks_ = 0;
      // Either WakeSupervisor sees that it sleeps, or this sees the request.
      sleeps_.store(true);
      if (admission_.idle()) {
        return absl::InfiniteDuration();
      }
      sleeps_.store(false);
    }
    idle_looks_ = 0;
    admission_.LookForDead();
    const absl::Status end = admission_.end();
    const absl::Time now = SteadyNow();
    for (const auto& scheduler : schedulers_) {
      scheduler->Look(now, end);
    }
    return kInterval;
  }
  // There is a request. A load unless the supervisor sleeps.
  void WakeSupervisor() {
    if (sleeps_.load() && sleeps_.exchange(false)) {
      supervisor_->Hurry();
    }
  }

  const EngineOptions options_;
  Admission admission_;
  Quarantine quarantine_;
  std::vector<std::unique_ptr<Scheduler>> schedulers_;  // they use the others
  std::atomic<bool> sleeps_{false};                     // the supervisor
  int idle_looks_ = 0;                                  // the supervisor's own
  std::optional<PeriodicThread> supervisor_;            // looks at them
};

template <typename Answer, typename Start>
absl::StatusOr<Answer> WaitFor(const Start& start) {
  absl::StatusOr<Answer> result;
  absl::Notification done;
  start([&](absl::StatusOr<Answer> answer) {
    result = std::move(answer);
    done.Notify();
  });
  done.WaitForNotification();
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Start(EngineOptions options) {
  if (options.num_threads < 0 || options.num_threads > 1024) {
    return Invalid("threads: ", options.num_threads, " is outside [0, 1024]");
  }
  if (options.max_queue_rows < 1 || options.max_queue_bytes < 1) {
    return Invalid("max_queue_rows (", options.max_queue_rows, ") and max_queue_bytes (",
                   options.max_queue_bytes, ") must be positive");
  }
  if (options.max_known_rows < 0) {
    return Invalid("max_known_rows (", options.max_known_rows, ") must not be negative");
  }
  if (options.max_bytes < 1 || options.max_encode_positions < 1) {
    return Invalid("max_bytes (", options.max_bytes, ") and max_encode_positions (",
                   options.max_encode_positions, ") must be positive");
  }
  if (options.slow_step <= absl::ZeroDuration() || options.step_timeout <= absl::ZeroDuration()) {
    return Invalid("slow_step (", absl::FormatDuration(options.slow_step), ") and step_timeout (",
                   absl::FormatDuration(options.step_timeout), ") must be positive");
  }
  if (options.max_rows < 1 || options.max_queue < 1) {
    return Invalid("max_rows (", options.max_rows, ") and max_queue (", options.max_queue,
                   ") must be positive");
  }
  if (options.num_threads == 0) {
    options.num_threads = UsableCpus();
  }
  if (options.num_streams < 0 || options.num_streams > options.num_threads) {
    return Invalid("streams: ", options.num_streams, " is outside [0, ", options.num_threads,
                   "], the number of threads; 0: as many as there is work for");
  }
  if (options.cached_bytes == 0) {
    options.cached_bytes = LastCacheBytes() / 2;
  }
  if (options.prefix_cache_bytes < 0 || options.prefix_cache_bytes >= options.max_bytes) {
    return Invalid("prefix_cache_bytes (", options.prefix_cache_bytes,
                   ") must be below max_bytes (", options.max_bytes, "), of which they are a part");
  }
  if (options.prefix_cache_bytes > 0) {
    options.max_bytes -= options.prefix_cache_bytes;
    options.prefix_cache = std::make_shared<PrefixCache>(options.prefix_cache_bytes);
  }
  if (options.state_key.empty()) {
    options.state_key = DrawStateKey();
  }
  return std::make_unique<StreamingEngine>(options);
}

void Engine::Decode(std::shared_ptr<const DecodeModel> model, v1::Source source,
                    const v1::DecodeOptions& options, const CallOptions& call, Callback done) {
  auto resolved = ResolveOptions(*model, options);
  if (!resolved.ok()) {
    done(resolved.status());
    return;
  }
  DecodeResolved(std::move(model), std::move(source), *std::move(resolved), call, std::move(done));
}

absl::StatusOr<v1::Decoded> Engine::DecodeAndWait(std::shared_ptr<const DecodeModel> model,
                                                  v1::Source source,
                                                  const v1::DecodeOptions& options,
                                                  const CallOptions& call) {
  return WaitFor<v1::Decoded>([&](Callback done) {
    Decode(std::move(model), std::move(source), options, call, std::move(done));
  });
}

absl::StatusOr<v1::Scored> Engine::ScoreAndWait(std::shared_ptr<const DecodeModel> model,
                                                v1::ScoreSource source,
                                                const v1::ScoreOptions& options,
                                                const CallOptions& call) {
  return WaitFor<v1::Scored>([&](ScoreCallback done) {
    Score(std::move(model), std::move(source), options, call, std::move(done));
  });
}

}  // namespace beamwright::engine
