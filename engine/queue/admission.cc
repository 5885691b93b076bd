// Admission: one mutex around the RequestQueue, and the waiting of the engine's worker threads.
// What happens to a request:
//
// 1. Enqueue, on the caller's thread: pushed into the queue, or refused. While the queue is full,
//    CheckFull repeats the refusal from an atomic, without the mutex.
// 2. Take, on the thread of a stream, between two steps: the stream reports what its requests take,
//    sleeps until there is news (WaitForWork), and gets the requests that fit (Fill). The reports
//    of all streams together are what runs.
// 3. CountIn wraps the request's `done`: when its answer is given, CountOut returns its share of
//    the tenant's limits, teaches the estimator how long it took, and reports to the observer.
// 4. Sweep, at most every kSweepInterval, moves cancelled and expired requests to `dead_`. The next
//    Take answers them, without the mutex, since callbacks of callers may take long.
//
// `news_` counts the events after which a request may fit that did not fit before: a request was
// queued, an answer was given, a stream's requests take less, a request died. A stream that looked
// in vain remembers the count in Stream::seen and sleeps until it changes. So there is one
// condition for all streams, and no event is missed between look and sleep.
#include "engine/queue/admission.h"

#include <algorithm>

#include "engine/queue/stream_plan.h"
#include "engine/status/fault.h"

namespace beamwright::engine {
namespace {

// How often the queue is searched for cancelled and expired requests.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(5);
}  // namespace

Admission::Admission(const EngineOptions& options, Clock clock)
    : options_(options),
      clock_(clock),
      queue_(options_),
      streams_(static_cast<size_t>(options.MostStreams())) {}

absl::Status Admission::CheckFull() const {
  const int64_t until = full_until_ns_.load(std::memory_order_relaxed);
  if (until == 0 || absl::ToUnixNanos(clock_()) >= until) {
    return absl::OkStatus();
  }
  absl::MutexLock lock(&full_mutex_);
  return full_;
}

void Admission::SetFull(const absl::Status& refusal) {
  {
    absl::MutexLock lock(&full_mutex_);
    full_ = refusal;
  }
  full_until_ns_.store(absl::ToUnixNanos(next_sweep_), std::memory_order_relaxed);
}

absl::Status Admission::Enqueue(std::unique_ptr<Request>& request) {
  absl::MutexLock lock(&mutex_);
  if (draining_) {
    return status::WithReason(absl::UnavailableError("the server is draining; try another replica"),
                              status::reason::kShuttingDown);
  }
  const absl::Time now = clock_();
  if (queue_.size() >= options_.max_queue) {
    Sweep(now);
  }
  absl::Status status = queue_.Push(request, MomentAt(now));
  if (status.ok()) {
    ++news_;
    ++num_open_;
  } else if (status::ReasonOf(status) == status::reason::kQueueFull && queue_.is_full()) {
    SetFull(status);
  }
  return status;
}

void Admission::Sweep(absl::Time now) {
  if (now < next_sweep_) {
    return;
  }
  for (std::unique_ptr<Request>& request : queue_.TakeDead(now)) {
    dead_.push_back(std::move(request));
    ++news_;  // requests behind it may fit
    SetNotFull();
  }
  next_sweep_ = now + kSweepInterval;
}

void Admission::CountIn(int stream, Request& request, const RequestQueue::Share& share) {
  if (request.is_stream()) {
    request.reserve = [this, stream](int64_t more) { return Reserve(stream, more); };
  }
  std::visit(
      [&](auto& done) {
        // The request lives until it is answered.
        done = [this, done = std::move(done), &request, share, begin = clock_()](auto answer) {
          this->CountOut(request, share, answer, begin);
          done(std::move(answer));
        };
      },
      request.done);
}

template <typename Answer>
void Admission::CountOut(const Request& request, const RequestQueue::Share& share,
                         const absl::StatusOr<Answer>& answer, absl::Time begin) {
  const absl::Time now = clock_();
  {
    absl::MutexLock lock(&mutex_);
    queue_.Ended(request, share, clock_());
    ++news_;
    --num_open_;
  }
  Learn(request, answer, now - begin);
  TellEnd(request, answer.status().code(), now);
}

void Admission::TellEnd(const Request& request, absl::StatusCode code, absl::Time now) const {
  if (options_.observer == nullptr) {
    return;
  }
  const bool has_begun = request.started != absl::InfinitePast();
  options_.observer->OnEnd(
      *request.model, {code, request.call.priority,
                       (has_begun ? request.started : now) - request.accepted, request.row_steps});
}

void Admission::Learn(const Request& request, const absl::StatusOr<v1::Decoded>& decoded,
                      absl::Duration took) {
  if (!decoded.ok() || request.is_stream()) {
    return;
  }
  const int steps = request.CountSteps(*decoded);
  absl::MutexLock lock(&mutex_);
  queue_.LearnAnswer(request, steps, took, clock_());
}

Reserved Admission::AllRunning() const {
  Reserved all;
  for (const Stream& stream : streams_) {
    all += stream.running;
  }
  for (const auto& [worker, running] : apart_) {
    all += running;
  }
  return all;
}

bool Admission::Reserve(int stream, int64_t more) {
  absl::MutexLock lock(&mutex_);
  if (!queue_.Reserve(more, AllRunning().bytes)) {
    return false;
  }
  // Holds until the stream's thread reports what its requests take.
  streams_[static_cast<size_t>(stream)].running.bytes += more;
  news_ += more < 0 ? 1 : 0;
  return true;
}

void Admission::SetRunning(Stream& stream, const Reserved& running) {
  if (running.requests < stream.running.requests || running.rows < stream.running.rows ||
      running.bytes < stream.running.bytes) {
    ++news_;
  }
  stream.running = running;
}

void Admission::Restart(int stream, const Reserved& running) {
  absl::MutexLock lock(&mutex_);
  Stream& own = streams_[static_cast<size_t>(stream)];
  SetRunning(own, running);
  own.turn_started = clock_();
}

void Admission::SetApart(const void* worker, const Reserved& running) {
  absl::MutexLock lock(&mutex_);
  if (running.requests == 0) {
    apart_.erase(worker);
  } else {
    apart_[worker] = running;
  }
  ++news_;
}

bool Admission::IsDone() const {
  return queue_.empty() && dead_.empty() && num_ending_ == 0 && AllRunning().requests == 0;
}

int Admission::NumActive() const {
  const auto most = static_cast<int>(streams_.size());
  if (options_.num_streams != EngineOptions::kStreamsAsWorkIs) {
    return most;
  }
  return StreamsForRows(AllRunning().rows + queue_.rows(), queue_.has_large(), options_.num_threads,
                        most);
}

RequestQueue::Moment Admission::MomentAt(absl::Time now) const {
  return {now, AllRunning(), NumActive()};
}

int Admission::Threads(int number) {
  absl::MutexLock lock(&mutex_);
  const bool is_fixed = options_.num_streams != EngineOptions::kStreamsAsWorkIs;
  int sharing = 0;
  int before = 0;
  int taken = 0;  // by other streams, for turns under way
  for (int i = 0; i < static_cast<int>(streams_.size()); ++i) {
    const Stream& stream = streams_[static_cast<size_t>(i)];
    const bool has_work = stream.turn_started != absl::InfiniteFuture();
    if (is_fixed || has_work || i == number) {
      ++sharing;
      before += i < number ? 1 : 0;
      taken += i != number && has_work ? stream.threads : 0;
    }
  }
  const int all = options_.num_threads;
  const int part = ThreadsOfStream(all, sharing, before);
  int& own = streams_[static_cast<size_t>(number)].threads;
  own = std::max(1, is_fixed ? part : std::min(part, all - taken));
  return own;
}

void Admission::WaitForWork(int number, absl::Time next_work) {
  if (clock_() >= next_work) {
    return;
  }
  Stream& stream = streams_[static_cast<size_t>(number)];
  stream.turn_started = absl::InfiniteFuture();
  // A waiting request may not fit while other streams run; it is tried again when a run of another
  // stream has ended.
  const auto has_news = [this, number, &stream]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!dead_.empty()) {
      return true;
    }
    const bool runs_some = stream.running.requests > 0;
    if (queue_.empty() && !runs_some) {
      return draining_;
    }
    return stream.seen != news_ && (runs_some || number < NumActive());
  };
  mutex_.AwaitWithTimeout(absl::Condition(&has_news), next_work - clock_());
}

void Admission::Ring() {
  absl::MutexLock lock(&mutex_);
  ++news_;
}

void Admission::LookForDead() {
  absl::MutexLock lock(&mutex_);
  Sweep(clock_());  // dead requests wake the streams that wait
}

void Admission::Fill(int number, Requests& admitted) {
  Stream& stream = streams_[static_cast<size_t>(number)];
  stream.seen = news_;
  const RequestQueue::Moment moment = MomentAt(clock_());
  if (number >= moment.num_workers) {
    return;
  }
  FairQueue::Room room = queue_.RoomAt(moment);
  // An equal share of all rows. The stream with the fewest rows is always below it, so some stream
  // takes the next request.
  const int64_t share =
      (moment.running.rows + queue_.rows() + moment.num_workers - 1) / moment.num_workers;
  while (stream.running.rows < share) {
    RequestQueue::Popped next = queue_.Pop(room, moment.now);
    if (next.request == nullptr) {
      return;
    }
    SetNotFull();
    stream.running += next.request->reserved();
    CountIn(number, *next.request, next.share);
    admitted.push_back(std::move(next.request));
  }
}

bool Admission::Take(int number, const Reserved& running, absl::Time next_work, Requests& admitted,
                     absl::Status& end) {
  Requests dead;
  {
    absl::MutexLock lock(&mutex_);
    Stream& stream = streams_[static_cast<size_t>(number)];
    // 1. The turn that has ended teaches the forecasts; what is left of it is the stream's load.
    if (stream.running.rows > 0) {
      queue_.LearnTurn(stream.running.rows, clock_() - stream.turn_started);
    }
    SetRunning(stream, running);
    // 2. Sleep until there is work.
    WaitForWork(number, running.requests == 0 ? absl::InfiniteFuture() : next_work);
    if (running.requests == 0 && queue_.empty() && dead_.empty()) {
      return false;
    }
    end = end_;
    // 3. The next turn begins: dead requests leave the queue, and requests that fit join.
    stream.turn_started = clock_();
    Sweep(stream.turn_started);
    Fill(number, admitted);
    dead.swap(dead_);
    num_ending_ += static_cast<int>(dead.size());
  }
  // 4. Dead requests are answered without the mutex. Until their callers' callbacks are gone, Drain
  //    waits (num_ending_).
  const absl::Time now = clock_();
  for (const std::unique_ptr<Request>& request : dead) {
    --num_open_;
    request->Fail(request->CheckAlive(now));
  }
  if (const auto count = static_cast<int>(dead.size()); count > 0) {
    dead.clear();  // also destroys the callbacks of their callers
    absl::MutexLock lock(&mutex_);
    num_ending_ -= count;
  }
  return true;
}

void Admission::Drain() {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
  SetNotFull();
  mutex_.Await(absl::Condition(this, &Admission::IsDone));
}

void Admission::End(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
  ++news_;  // wakes streams whose running requests wait for their sources
  SetNotFull();
  end_ = std::move(why);
}

EngineLoad Admission::load() const {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_();
  const Reserved running = AllRunning();
  EngineLoad load;
  load.waiting = queue_.size();
  load.waiting_by_priority = queue_.sizes();
  load.running = running.requests;
  load.rows = running.rows;
  load.max_rows = options_.max_rows;
  load.bytes = running.bytes;
  load.max_bytes = options_.max_bytes;
  const FairQueue::Aside aside = queue_.aside();
  load.memory = {aside.size, aside.size == 0 ? absl::ZeroDuration() : now - aside.oldest,
                 aside.bytes, queue_.arriving().requests, queue_.arriving().bytes};
  load.num_threads = options_.num_threads;
  load.num_streams = static_cast<int>(streams_.size());
  load.oldest_wait = queue_.empty() ? absl::ZeroDuration() : now - queue_.oldest();
  load.stalled = absl::InfiniteDuration();
  const auto num_active = static_cast<size_t>(NumActive());
  for (size_t i = 0; i < streams_.size(); ++i) {
    const absl::Duration turn = std::max(absl::ZeroDuration(), now - streams_[i].turn_started);
    load.turn = std::max(load.turn, turn);
    // A stream that takes no work does not show that the engine is alive.
    load.stalled = i < num_active ? std::min(load.stalled, turn) : load.stalled;
  }
  return load;
}

std::vector<TenantLoad> Admission::Tenants() const {
  absl::MutexLock lock(&mutex_);
  return queue_.Tenants();
}

}  // namespace beamwright::engine
