#include "engine/schedule/scheduler.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "engine/status/error_details.h"
#include "ops/base/fault_point.h"
#include "ops/base/steady_time.h"
#include "ops/base/time_slice.h"
#include "ops/kernels/team.h"

namespace beamwright::engine {
namespace {

// How long a lane that is apart waits for more requests of its model before it ends.
constexpr absl::Duration kLinger = absl::Seconds(10);

}  // namespace

Scheduler::Scheduler(const EngineOptions& options, int number, Admission& admission,
                     Quarantine& quarantine)
    : options_(options), number_(number), admission_(admission), quarantine_(quarantine) {
  auto lane = std::make_shared<Lane>(options_, quarantine_, interruption_);
  absl::MutexLock lock(&mutex_);
  threads_.push_back({lane, std::thread([this, lane] { Run(lane, /*is_first=*/true); })});
}

Scheduler::~Scheduler() {
  std::vector<Thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    stops_ = true;
    threads.swap(threads_);
  }
  for (Thread& thread : threads) {
    thread.thread.join();
  }
}

void Scheduler::Run(const LanePtr& lane, bool is_first) {
  // For top and the like; the threads of its region inherit name and slices.
  pthread_setname_np(pthread_self(), "bw-engine");
  UseUsualTimeSlices();
  const StepProfile::Here profile(number_ == 0 && is_first ? options_.profile : nullptr);
  {
    absl::MutexLock lock(&mutex_);  // the starting thread has filled the lane
  }
  EncodeQueue::Requests admitted;
  absl::Status end;
  bool goes_on = Take(*lane, admitted, end);
  while (goes_on) {
    // The OpenMP region in which the turns run, until the lane has more threads than it: their
    // number may change from turn to turn, and threads that a loop does not ask for sleep.
    const int threads = lane->num_threads();
    Team::Within(threads, [&] {
      do {
        FaultPoint("engine.turn").IgnoreError();  // a delay at most
        const Interruption::Scope scope(lane->interruption());
        lane->Turn(std::move(admitted), end);
        admitted.clear();
        goes_on = Take(*lane, admitted, end);
      } while (goes_on && lane->num_threads() <= threads);
    });
  }
  absl::MutexLock lock(&mutex_);
  lane->has_ended = true;
}

bool Scheduler::Take(Lane& lane, EncodeQueue::Requests& admitted, absl::Status& end) {
  if (lane.is_apart) {
    return TakeApart(lane, admitted, end);
  }
  if (!admission_.Take(number_, lane.Running(), lane.next_work(), admitted, end)) {
    return false;
  }
  lane.SetThreads(admission_.Threads(number_));
  HandOn(admitted);
  return true;
}

void Scheduler::HandOn(EncodeQueue::Requests& admitted) {
  const absl::Time now = SteadyNow();
  for (auto& request : admitted) {
    if (const absl::Status out = quarantine_.CheckHung(*request->model, now); !out.ok()) {
      request->Fail(out);
      request = nullptr;
    }
  }
  if (num_apart_.load(std::memory_order_relaxed) > 0) {
    absl::MutexLock lock(&mutex_);
    for (auto& request : admitted) {
      const auto found =
          std::find_if(threads_.begin(), threads_.end(), [&request](const Thread& thread) {
            return request != nullptr && thread.lane->apart_model == request->model.get() &&
                   !thread.lane->has_ended;
          });
      if (found == threads_.end()) {
        continue;
      }
      EncodeQueue::Requests one;
      one.push_back(std::move(request));
      found->lane->inbox.Add(std::move(one));
      // Until its thread takes them they wait: they hold no rows.
      TellApart(*found->lane, found->lane->told);
    }
  }
  admitted.erase(std::remove(admitted.begin(), admitted.end(), nullptr), admitted.end());
}

void Scheduler::TellApart(Lane& lane, Reserved running) {
  lane.told = running;
  running.requests += lane.inbox.reserved().requests;
  admission_.SetApart(&lane, running);
}

bool Scheduler::TakeApart(Lane& lane, EncodeQueue::Requests& admitted, absl::Status& end) {
  absl::MutexLock lock(&mutex_);
  Reserved running = lane.Running();
  if (running.requests == 0 && lane.inbox.empty()) {
    TellApart(lane, running);
    const auto has_news = [this, &lane]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return stops_ || !lane.inbox.empty();
    };
    mutex_.AwaitWithTimeout(absl::Condition(&has_news), kLinger);
    if (lane.inbox.empty()) {
      TellApart(lane, running);
      lane.apart_model = nullptr;
      --num_apart_;
      return false;
    }
  } else if (lane.inbox.empty() && lane.next_work() > SteadyNow()) {
    // Streams of the model wait for frames; FrameFeed wakes the admission, not this lane.
    constexpr absl::Duration kLook = absl::Milliseconds(10);
    const auto has_news = [&lane]() { return !lane.inbox.empty(); };
    mutex_.AwaitWithTimeout(absl::Condition(&has_news), kLook);
  }
  end = admission_.end();
  // Half of what there is room for is left to other models. Streams that wait hold no rows: they
  // must not keep everybody else out.
  admitted = lane.inbox.TakeFront(options_.max_rows / 2 - running.rows,
                                  options_.max_bytes / 2 - running.bytes, running.rows == 0);
  running += ReservedFor(admitted);
  TellApart(lane, running);
  return true;
}

void Scheduler::SetApart(Lane& lane, const DecodeModel& model) {
  absl::MutexLock lock(&mutex_);
  const auto ended = std::partition(threads_.begin(), threads_.end(),
                                    [](const Thread& thread) { return !thread.lane->has_ended; });
  for (auto thread = ended; thread != threads_.end(); ++thread) {
    thread->thread.join();
  }
  threads_.erase(ended, threads_.end());
  auto rest = std::make_shared<Lane>(options_, quarantine_, interruption_);
  try {
    threads_.reserve(threads_.size() + 1);
    threads_.push_back({rest, std::thread([this, rest] { Run(rest, /*is_first=*/false); })});
  } catch (const std::system_error&) {
    return;  // the machine has no thread to spare: the others wait
  }
  lane.MoveOthers(model, *rest);
  lane.apart_model = &model;
  lane.is_apart = true;
  ++num_apart_;
  Reserved running = lane.Running();
  TellApart(lane, running);
  admission_.Restart(number_, rest->Running());
}

void Scheduler::Look(absl::Time now, const absl::Status& end) {
  std::vector<LanePtr> lanes;
  {
    absl::MutexLock lock(&mutex_);
    for (const Thread& thread : threads_) {
      lanes.push_back(thread.lane);
      EncodeQueue& inbox = thread.lane->inbox;
      if (!inbox.empty()) {
        end.ok() ? inbox.DropDead(now) : inbox.FailAll(end);
        TellApart(*thread.lane, thread.lane->told);
      }
    }
  }
  for (const LanePtr& lane : lanes) {
    lane->Look(
        now, end, [&](const DecodeModel& model) { SetApart(*lane, model); },
        [&](const DecodeModel& model) {
          const absl::Status out = quarantine_.CheckHung(model, now);
          absl::MutexLock lock(&mutex_);
          lane->inbox.FailAll(out);
          TellApart(*lane, lane->told);
        });
  }
}

}  // namespace beamwright::engine
