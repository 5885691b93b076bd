// TaskThread runs tasks in the order in which they came; TurnThread gives clients turns by the
// rules of the engine's queue. Then the watches of streams, of the start and of the engine: each
// looks from time to time, on its thread, and none waits for what it watches.
#include "server/serving/server_threads.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/serving/recognition.h"
#include "server/serving/serving_state.h"

namespace beamwright::serving {

TaskThread::TaskThread(const char* name) : thread_([this, name] { Run(name); }) {}

TaskThread::~TaskThread() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void TaskThread::Post(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
}

void TaskThread::Run(const char* name) {
  pthread_setname_np(pthread_self(), name);
  std::vector<std::function<void()>> tasks;
  while (true) {
    {
      absl::MutexLock lock(&mutex_, absl::Condition(this, &TaskThread::HasWork));
      if (tasks_.empty()) {
        return;  // stop_, and nothing is left
      }
      tasks.swap(tasks_);
    }
    for (std::function<void()>& task : tasks) {
      task();
    }
    tasks.clear();
  }
}

namespace {

struct Turn : engine::Ticket {
  TurnThread::Work work;
};

// What a call goes on with.
absl::Status OutcomeOf(const engine::Ticket& ticket, absl::Time now) {
  if (ticket.cancelled != nullptr && ticket.cancelled->cancelled()) {
    return ticket.cancelled->Outcome(ticket.deadline, now);
  }
  return ticket.deadline < now
             ? absl::DeadlineExceededError("the deadline passed before the request was read")
             : absl::OkStatus();
}

}  // namespace

TurnThread::TurnThread(const char* name, int most_calls)
    : queue_(engine::QueueLimits{most_calls}), thread_(name) {}

TurnThread::~TurnThread() { End(ShuttingDown()); }

absl::Status TurnThread::Post(const Caller& caller, Work work) {
  auto turn = std::make_unique<Turn>();
  turn->tenant = caller.tenant;
  turn->priority = caller.priority;
  turn->client = caller.connection;
  turn->deadline = caller.deadline;
  turn->cancelled = caller.cancelled;
  turn->accepted = SteadyNow();
  turn->work = std::move(work);
  std::unique_ptr<engine::Ticket> ticket = std::move(turn);
  {
    absl::MutexLock lock(&mutex_);
    BW_RETURN_IF_ERROR(end_);
    BW_RETURN_IF_ERROR(queue_.Push(ticket, ticket->accepted));
  }
  thread_.Post([this] { RunNext(); });
  return absl::OkStatus();
}

void TurnThread::End(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  end_ = end_.ok() ? why : end_;
}

void TurnThread::RunNext() {
  engine::FairQueue::Room room;
  room.rows = 1;
  room.bytes = std::numeric_limits<int64_t>::max();
  std::vector<std::unique_ptr<engine::Ticket>> tickets;  // dead ones, and the next one
  const engine::Ticket* next = nullptr;
  absl::Status end;
  {
    absl::MutexLock lock(&mutex_);
    end = end_;
    tickets = queue_.TakeDead(SteadyNow());
    if (std::unique_ptr<engine::Ticket> ticket = queue_.Pop(room); ticket != nullptr) {
      next = ticket.get();
      tickets.push_back(std::move(ticket));
    }
  }
  for (const std::unique_ptr<engine::Ticket>& ticket : tickets) {
    const absl::Status outcome = OutcomeOf(*ticket, SteadyNow());
    static_cast<Turn&>(*ticket).work(outcome.ok() ? end : outcome);
  }
  if (next != nullptr) {
    absl::MutexLock lock(&mutex_);
    queue_.Ended(next->tenant, next->rows, next->call, next->client);
  }
}

namespace {

constexpr size_t kFewStreams = 64;

template <typename Which>
void Erase(std::vector<std::weak_ptr<Recognition>>& streams, const Which& which) {
  streams.erase(std::remove_if(streams.begin(), streams.end(), which), streams.end());
}

}  // namespace

void StreamWatch::SetIdle(absl::Duration idle) {
  absl::MutexLock lock(&mutex_);
  idle_ = idle == absl::ZeroDuration() ? absl::InfiniteDuration() : idle;
}

absl::Duration StreamWatch::idle() const {
  absl::MutexLock lock(&mutex_);
  return idle_;
}

size_t StreamWatch::num_streams() const {
  absl::MutexLock lock(&mutex_);
  return streams_.size();
}

void StreamWatch::Add(std::weak_ptr<Recognition> stream) {
  absl::MutexLock lock(&mutex_);
  if (streams_.size() >= most_streams_) {
    Erase(streams_, [](const std::weak_ptr<Recognition>& old) { return old.expired(); });
    most_streams_ = std::max(kFewStreams, 2 * streams_.size());
  }
  streams_.push_back(std::move(stream));
  if (!thread_.has_value() && idle_ < absl::InfiniteDuration()) {
    thread_.emplace("bw-streams", PeriodicThread::IntervalFor(idle_),
                    [this] { Look(SteadyNow()); });
  }
}

void StreamWatch::Look(absl::Time now) {
  const absl::Duration most = idle();
  if (most == absl::InfiniteDuration()) {
    return;
  }
  EndIdle(now, most,
          absl::DeadlineExceededError(absl::StrCat("nothing has come of the stream for ",
                                                   absl::FormatDuration(most),
                                                   " (stream-idle-timeout)")));
}

void StreamWatch::LookInDrain(absl::Time now) {
  EndIdle(now, std::min(idle(), kMostIdleInDrain), ShuttingDown());
}

void StreamWatch::EndIdle(absl::Time now, absl::Duration idle, const absl::Status& why) {
  std::vector<std::weak_ptr<Recognition>> streams;
  {
    absl::MutexLock lock(&mutex_);
    streams.swap(streams_);
  }
  // Without the lock: a stream that ends calls back.
  Erase(streams, [&](const std::weak_ptr<Recognition>& weak) {
    const std::shared_ptr<Recognition> stream = weak.lock();
    return stream == nullptr || stream->EndIfIdle(now, idle, why);
  });
  absl::MutexLock lock(&mutex_);
  streams_.insert(streams_.end(), streams.begin(), streams.end());
}

StartupWatch::StartupWatch(absl::Duration timeout, std::function<void()> too_late) {
  if (timeout > absl::ZeroDuration()) {
    thread_ = std::thread([this, timeout, too_late = std::move(too_late)] {
      if (!started_.WaitForNotificationWithTimeout(timeout)) {
        too_late();
      }
    });
  }
}

StartupWatch::~StartupWatch() {
  if (!started_.HasBeenNotified()) {
    started_.Notify();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

EngineWatch::EngineWatch(std::function<absl::Duration()> stalled, absl::Duration longest,
                         ServingState& state)
    : stalled_(std::move(stalled)), longest_(longest), state_(state) {
  thread_.emplace("bw-watch", PeriodicThread::IntervalFor(longest_), [this] { Look(); });
}

EngineWatch::~EngineWatch() {
  thread_.reset();
  state_.SetHangs(false);
}

void EngineWatch::Look() {
  const bool hangs = stalled_() > longest_;
  if (hangs != std::exchange(hung_, hangs)) {
    if (hangs) {
      spdlog::error("the engine has work and has not come round for {} (liveness-timeout)",
                    absl::FormatDuration(longest_));
    } else {
      spdlog::info("the engine has come round again");
    }
  }
  state_.SetHangs(hangs);
}

}  // namespace beamwright::serving
