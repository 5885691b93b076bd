#include "engine/queue/admission.h"

#include <algorithm>
#include <limits>

#include "engine/queue/stream_plan.h"
#include "engine/request/stream_share.h"
#include "engine/status/error_details.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

// How often the queue is searched for cancelled and expired requests.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(5);
// Bounds of the retry delay that refused clients get.
constexpr absl::Duration kSoonest = absl::Milliseconds(20);
constexpr absl::Duration kLatest = absl::Seconds(10);

// This part of rows and bytes is kept for calls of which no source runs.
constexpr int kShareOfNewcomers = 8;

// Rows that each client with more than one source has running at most, for each thread, while
// there are clients with one: a step is as fast a row with more of them, but all wait for it.
constexpr int kRowsBesideOthers = 16;
// For how long after one was last answered: it may call again.
constexpr absl::Duration kOthersStay = absl::Seconds(1);

// Against the mean row that runs, a source of this part of its cost is light. Where this many
// requests run, others leave a quarter of the newcomers' rows to light ones, if that is enough for
// a usual beam.
constexpr double kLight = 1.0 / 8;
constexpr int kManyRequests = 8;
constexpr int kUsualBeam = 4;
// Against the cheapest clients with one source, a source of this multiple of their cost is heavy,
// unless it is light: all heavy ones together have the rows of one client.
constexpr double kHeavy = 16;

// While sources arrive, this part of the bytes is left for them to grow into.
constexpr int64_t kShareToGrowInto = 16;

// What a request holds before it runs: its source, and about as much for itself.
int64_t WaitingBytes(const PreparedSource& source) {
  constexpr int64_t kOwnBytes = 4096;
  int64_t bytes = kOwnBytes;
  if (source.encoder_input.has_value()) {
    bytes += source.encoder_input->num_bytes();
  }
  for (const auto* inputs : {&source.further_inputs, &source.decoder_inputs}) {
    for (const ops::Tensor& input : *inputs) {
      bytes += input.num_bytes();
    }
  }
  return bytes;
}

}  // namespace

struct Admission::Queued : Ticket {
  std::unique_ptr<Request> request;
};

Admission::Admission(const EngineOptions& options, Clock clock)
    : options_(options),
      clock_(clock),
      queue_({options.max_queue, options.max_queue_rows, options.max_queue_bytes}),
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
  const absl::Time now = clock_();
  auto queued = std::make_unique<Queued>();
  queued->tenant = request->call.tenant;
  queued->priority = request->call.priority;
  queued->call = request->call.call;
  queued->client = request->call.client;
  queued->rows = request->beam_size;
  queued->is_stream = request->is_stream();
  queued->running_bytes = request->price_bytes;
  queued->waiting_bytes = WaitingBytes(request->source);
  queued->accepted = request->accepted;
  queued->deadline = request->call.deadline;
  queued->cancelled = request->call.cancelled;
  absl::MutexLock lock(&mutex_);
  if (draining_) {
    return status::WithReason(absl::UnavailableError("the server is draining; try another replica"),
                              status::reason::kShuttingDown);
  }
  Estimator::Forecast forecast =
      estimator_.Of(request->model->name(), request->source.source_length, request->max_steps, now);
  if (request->knows_steps) {
    forecast.steps = request->max_steps;
  }
  if (request->is_stream()) {
    // It takes as long as its sender does, and less of a step than others.
    forecast = {};
  }
  if (request->cut_at != absl::InfiniteFuture()) {
    forecast.took = absl::ZeroDuration();  // it answers with what it has by then
  }
  queued->cost = request->is_stream() ? 1.0 : std::max(1.0, forecast.steps * queued->rows);
  BW_RETURN_IF_ERROR(CheckDeadline(*queued, forecast, now));
  if (queue_.size() >= options_.max_queue) {
    Sweep(now);
  }
  const bool is_large = IsLarge(*request);
  queued->request = std::move(request);
  std::unique_ptr<Ticket> ticket = std::move(queued);
  absl::Status status = queue_.Push(ticket, now);
  if (status.ok()) {
    num_large_ += is_large ? 1 : 0;
    ++news_;
    ++num_open_;
  } else {
    request = std::move(static_cast<Queued&>(*ticket).request);
    if (status::ReasonOf(status) == status::reason::kQueueFull) {
      status = status::WithRetryAfter(std::move(status), UntilRoom());
      if (queue_.is_full()) {
        SetFull(status);
      }
    }
  }
  return status;
}

// ResourceExhausted if the deadline will have passed before the answer is there. While there is
// no other work no call is refused: only then can a wrong estimate come right again. A
// deadline that has passed already gets its own message.
absl::Status Admission::CheckDeadline(const Queued& queued, const Estimator::Forecast& forecast,
                                      absl::Time now) const {
  const double rate = RowStepsPerSecond();
  if (!options_.forecast_deadlines || !forecast.sure || rate <= 0 ||
      queued.deadline == absl::InfiniteFuture() || (queue_.size() == 0 && running_cost_ == 0)) {
    return absl::OkStatus();
  }
  const double ahead = queue_.CostAhead(queued);
  // A ticket costs 1 at least: less is what is left of sums.
  const bool waits = ahead >= 1 || AllRunning().rows + queued.rows > options_.max_rows;
  const absl::Duration wait =
      waits ? absl::Seconds((ahead + running_cost_ / 2) / rate) : absl::ZeroDuration();
  if (now + wait + forecast.took <= queued.deadline) {
    return absl::OkStatus();
  }
  if (queued.deadline <= now) {
    return status::WithReason(
        absl::DeadlineExceededError("the request's deadline passed before it was queued"),
        status::reason::kWouldMissDeadline);
  }
  return status::WithRetryAfter(
      status::WithReason(
          absl::ResourceExhaustedError(absl::StrCat(
              "the answer is expected in ",
              absl::FormatDuration(absl::Trunc(wait + forecast.took, absl::Milliseconds(1))),
              ", after the request's deadline")),
          status::reason::kWouldMissDeadline),
      std::clamp(wait, kSoonest, kLatest));
}

absl::Duration Admission::UntilRoom() const {
  const double rate = RowStepsPerSecond();
  return rate <= 0 ? kSoonest
                   : std::clamp(absl::Seconds(queue_.cost() / 2 / rate), kSoonest, kLatest);
}

void Admission::Sweep(absl::Time now) {
  if (now < next_sweep_) {
    return;
  }
  for (std::unique_ptr<Ticket>& ticket : queue_.TakeDead(now)) {
    dead_.push_back(std::move(static_cast<Queued&>(*ticket).request));
    num_large_ -= IsLarge(*dead_.back()) ? 1 : 0;
    ++news_;  // what stood behind it may fit
    SetNotFull();
  }
  next_sweep_ = now + kSweepInterval;
}

void Admission::CountIn(int stream, Queued& queued, const FairQueue::Room& room) {
  Request& request = *queued.request;
  if (request.is_stream()) {
    arriving_ += request.reserved();
    request.reserve = [this, stream](int64_t more) { return Reserve(stream, more); };
  }
  const Share share{queued.rows, queued.cost,
                    !request.is_stream() && queued.cost <= room.light_cost,
                    !request.is_stream() && queued.cost > room.heavy_cost};
  ++num_running_;
  AddRunning(share, request.is_stream() ? 0 : 1);
  running_cost_ += queued.cost;
  std::visit(
      [&](auto& done) {
        // It lives until it is answered.
        done = [this, done = std::move(done), &request, share, begin = clock_()](auto answer) {
          const absl::Time now = clock_();
          CountOut(request, share);
          Learn(request, answer, now - begin);
          TellEnd(request, answer.status().code(), now);
          done(std::move(answer));
        };
      },
      request.done);
}

void Admission::AddRunning(const Share& share, int sign) {
  running_rows_ += sign * share.rows;
  cost_of_rows_ += sign * share.rows * share.cost;
  light_rows_ += share.is_light ? sign * share.rows : 0;
  heavy_rows_ += share.is_heavy ? sign * share.rows : 0;
  cost_of_rows_ = running_rows_ == 0 ? 0 : cost_of_rows_;  // no rest of a sum of doubles
}

void Admission::CountOut(const Request& request, const Share& share) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_();
  if (queue_.Ended(request.call.tenant, share.rows, request.call.call, request.call.client,
                   request.is_stream())) {
    others_until_ = now + kOthersStay;
    if (now >= least_until_ || share.cost < least_cost_) {
      least_cost_ = share.cost;
    }
    least_until_ = share.cost <= kHeavy * least_cost_ ? others_until_ : least_until_;
  }
  if (request.is_stream()) {
    arriving_ -= request.reserved();
  } else {
    AddRunning(share, -1);
  }
  num_large_ -= IsLarge(request) ? 1 : 0;
  ++news_;
  --num_open_;
  // Sums of doubles do not come back to zero by themselves.
  running_cost_ = --num_running_ == 0 ? 0 : std::max(running_cost_ - share.cost, 0.0);
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
  estimator_.Finished(request.model->name(), request.source.source_length, steps, took, clock_());
}

Reserved Admission::AllRunning() const {
  Reserved all;
  for (const Stream& stream : streams_) {
    all += stream.running;
  }
  for (const auto& [lane, running] : apart_) {
    all += running;
  }
  return all;
}

void Admission::DivideByCost(FairQueue::Room& room) const {
  const int kept = room.rows_kept / 4;
  room.light_cost = running_rows_ == 0 ? 0 : kLight * cost_of_rows_ / running_rows_;
  room.rows_kept_for_light = num_running_ >= kManyRequests && kept >= kUsualBeam ? kept : 0;
  room.rows_of_light = room.rows_kept - light_rows_;
  if (clock_() < least_until_) {
    room.heavy_cost = std::max(room.light_cost, kHeavy * least_cost_);
    // The first one may have any number.
    room.rows_of_heavy = heavy_rows_ == 0 ? std::numeric_limits<int>::max()
                                          : kRowsBesideOthers * options_.num_threads - heavy_rows_;
  }
}

FairQueue::Room Admission::RoomBeside(const Reserved& all) const {
  const int64_t left =
      options_.max_bytes -
      (arriving_.requests > 0 ? options_.max_bytes / kShareToGrowInto : int64_t{0});
  const int64_t of_streams = queue_.num_calls() > 0 ? MostNewStreamBytes(options_.max_bytes)
                                                    : MostStreamBytes(options_.max_bytes);
  FairQueue::Room room;
  room.rows = options_.max_rows - all.rows;
  room.bytes = left - all.bytes;
  room.rows_kept = options_.max_rows / kShareOfNewcomers;
  room.bytes_kept = options_.max_bytes / kShareOfNewcomers;
  room.stream_bytes = of_streams - arriving_.bytes;
  room.bytes_without_calls = left - arriving_.bytes;
  if (clock_() < others_until_) {
    room.rows_of_client = kRowsBesideOthers * options_.num_threads;
    room.num_wide = std::max(1, room.rows_of_client / (2 * FairQueue::kWide));
  }
  DivideByCost(room);
  return room;
}

bool Admission::Reserve(int stream, int64_t more) {
  absl::MutexLock lock(&mutex_);
  if (more > 0 && (AllRunning().bytes + more > options_.max_bytes ||
                   arriving_.bytes + more > MostStreamBytes(options_.max_bytes))) {
    return false;
  }
  arriving_.bytes += more;
  // Until the stream's thread says how much it has in hand.
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

void Admission::SetApart(const void* lane, const Reserved& running) {
  absl::MutexLock lock(&mutex_);
  if (running.requests == 0) {
    apart_.erase(lane);
  } else {
    apart_[lane] = running;
  }
  ++news_;
}

bool Admission::IsDone() const {
  return queue_.size() == 0 && dead_.empty() && num_ending_ == 0 && AllRunning().requests == 0;
}

int Admission::NumActive() const {
  const auto most = static_cast<int>(streams_.size());
  if (options_.num_streams != EngineOptions::kStreamsAsWorkIs) {
    return most;
  }
  return StreamsForRows(AllRunning().rows + queue_.rows(), num_large_ > 0, options_.num_threads,
                        most);
}

int Admission::Threads(int number) {
  absl::MutexLock lock(&mutex_);
  const bool is_fixed = options_.num_streams != EngineOptions::kStreamsAsWorkIs;
  int sharing = 0;
  int before = 0;
  int taken = 0;  // by others, for turns under way
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
  // A waiting request may not fit while other streams run; it is tried again when a run of
  // theirs has ended.
  const auto has_news = [this, number, &stream]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!dead_.empty()) {
      return true;
    }
    const bool runs_some = stream.running.requests > 0;
    if (queue_.size() == 0 && !runs_some) {
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
  Sweep(clock_());  // streams that wait are woken by what it finds
}

void Admission::Fill(int number, Requests& admitted) {
  Stream& stream = streams_[static_cast<size_t>(number)];
  stream.seen = news_;
  const int num_active = NumActive();
  if (number >= num_active) {
    return;
  }
  const Reserved all = AllRunning();
  FairQueue::Room room = RoomBeside(all);
  // Of those that take some, the one with the fewest rows is always below this.
  const int64_t share = (all.rows + queue_.rows() + num_active - 1) / num_active;
  while (stream.running.rows < share) {
    const std::unique_ptr<Ticket> ticket = queue_.Pop(room);
    if (ticket == nullptr) {
      return;
    }
    SetNotFull();
    Queued& queued = static_cast<Queued&>(*ticket);
    const Reserved taken = queued.request->reserved();
    room.rows -= taken.rows;
    room.bytes -= taken.bytes;
    room.stream_bytes -= queued.is_stream ? taken.bytes : 0;
    room.bytes_without_calls -= queued.is_stream ? taken.bytes : 0;
    stream.running += taken;
    CountIn(number, queued, room);
    DivideByCost(room);
    admitted.push_back(std::move(queued.request));
  }
}

bool Admission::Take(int number, const Reserved& running, absl::Time next_work, Requests& admitted,
                     absl::Status& end) {
  Requests dead;
  {
    absl::MutexLock lock(&mutex_);
    Stream& stream = streams_[static_cast<size_t>(number)];
    if (stream.running.rows > 0) {
      estimator_.Turn(stream.running.rows, clock_() - stream.turn_started);
    }
    SetRunning(stream, running);
    WaitForWork(number, running.requests == 0 ? absl::InfiniteFuture() : next_work);
    if (running.requests == 0 && queue_.size() == 0 && dead_.empty()) {
      return false;
    }
    end = end_;
    stream.turn_started = clock_();
    Sweep(stream.turn_started);
    Fill(number, admitted);
    dead.swap(dead_);
    num_ending_ += static_cast<int>(dead.size());
  }
  const absl::Time now = clock_();
  for (const std::unique_ptr<Request>& request : dead) {
    --num_open_;
    request->Fail(request->CheckAlive(now));
  }
  if (const auto count = static_cast<int>(dead.size()); count > 0) {
    dead.clear();  // and what their callers left with them
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
  ++news_;  // for those who wait for what runs
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
  load.num_threads = options_.num_threads;
  load.num_streams = static_cast<int>(streams_.size());
  load.oldest_wait = queue_.size() == 0 ? absl::ZeroDuration() : now - queue_.oldest();
  load.stalled = absl::InfiniteDuration();
  const auto num_active = static_cast<size_t>(NumActive());
  for (size_t i = 0; i < streams_.size(); ++i) {
    const absl::Duration turn = std::max(absl::ZeroDuration(), now - streams_[i].turn_started);
    load.turn = std::max(load.turn, turn);
    // One that takes no work is no sign of life.
    load.stalled = i < num_active ? std::min(load.stalled, turn) : load.stalled;
  }
  return load;
}

MemoryLoad Admission::memory() const {
  absl::MutexLock lock(&mutex_);
  const FairQueue::Aside aside = queue_.aside();
  MemoryLoad memory;
  memory.waiting = aside.size;
  memory.oldest_wait = aside.size == 0 ? absl::ZeroDuration() : clock_() - aside.oldest;
  memory.bytes_waited_for = aside.bytes;
  memory.streams = arriving_.requests;
  memory.stream_bytes = arriving_.bytes;
  return memory;
}

std::vector<TenantLoad> Admission::Tenants() const {
  absl::MutexLock lock(&mutex_);
  return queue_.Tenants();
}

}  // namespace beamwright::engine
