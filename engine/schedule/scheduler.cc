// Runs the threads that decode. A Scheduler has one thread with a Worker at first, in a loop: take
// admitted requests (Take), run a turn (Worker::Turn), until the engine ends.
//
// When an encoder run or a step takes longer than slow_step, Look, which a watching thread calls,
// splits it off (Split): the worker keeps that model alone, and a new thread with a new worker
// serves the others. Requests of the slow model go to its worker from then on (HandOver). Its
// thread ends when it has had nothing to do for a while, and is joined at the next split, or at the
// end.
//
// Turns run inside a parallel region of OpenMP (Team::Within) that stays open from turn to turn,
// since it costs time to begin one. It is begun anew only when the worker gets more threads than it
// has.
#include "engine/schedule/scheduler.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "engine/status/fault.h"
#include "ops/base/fault_point.h"
#include "ops/base/steady_time.h"
#include "ops/base/threads.h"
#include "ops/kernels/team.h"

namespace beamwright::engine {

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

}  // namespace beamwright::engine
