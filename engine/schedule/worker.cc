// One engine thread's turn, and the look that the supervisor takes at it from another thread
// (continuous batching; the watchdog for runs of a graph).
//
// Turn, on the worker's thread, between two calls of Admission::Take:
// 1. EncodeSome: new requests are encoded, up to max_encode_positions, so that running ones do not
//    wait long. TakeGroups forms batches of one model; EncodeGroups runs them and Join hands the
//    requests to the model's driver.
// 2. StepAll: each driver takes one step for all its requests. A driver without requests is parked.
//
// A model has two drivers, for narrow and for wide requests, and requests of each wait for their
// encoder in a separate queue. TurnOfWide lets wide ones run when narrow ones have had their time,
// which Charge counts (debts_).
//
// Look, on the supervisor's thread, while a run of a graph may be under way:
// 1. LookAtInbox answers dead requests among those handed over.
// 2. LookAtRun, for runs above kPatience: a slow model gets this worker alone (KeepOnly); cancelled
//    and expired requests are answered at once; a run that only dead requests wait for, or that
//    exceeds step_timeout, is interrupted. Slow runs count against their model (Quarantine).
//
// A worker that has one slow model alone takes requests from HandOver through its inbox
// (TakeHandedOver), and ends when none has come for kLinger. The mutex of Underway guards what the
// run is made of; `mutex_` guards the inbox.
#include "engine/schedule/worker.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/request/request.h"
#include "engine/status/fault.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {
namespace {

// Shorter runs are not inspected: cancelled requests are answered when the run ends.
constexpr absl::Duration kPatience = absl::Milliseconds(100);

// How long a worker with one model waits for more requests of it before its thread ends.
constexpr absl::Duration kLinger = absl::Seconds(10);

// A request with more rows, for each thread, is wide.
constexpr int kNarrowRows = 16;
// The time of runs for narrow requests for each unit of time for wide requests.
constexpr double kNarrowShare = 2;
// For so long after a step of narrow requests their client may make its next call.
constexpr absl::Duration kBetweenCalls = absl::Milliseconds(2);
// Of max_encode_positions, the part that wide requests have between two steps.
constexpr int64_t kPartOfWide = 8;

absl::Status TimedOut(absl::Duration took) {
  return absl::InternalError(absl::StrCat(
      "the model's graph ran for ", absl::FormatDuration(absl::Trunc(took, absl::Milliseconds(1))),
      " without coming to an end (step-timeout)"));
}

}  // namespace

Worker::Worker(const EngineOptions& options, Admission& admission, Quarantine& quarantine)
    : options_(options),
      admission_(admission),
      quarantine_(quarantine),
      underway_(options.interruption) {
  context_.num_threads = std::max(1, options.num_threads / options.MostStreams());
  context_.interruption = &underway_.interruption();
}

void Worker::Profile(StepProfile* profile) {
  context_.profile = profile;
  if (profile != nullptr) {
    profile->StartHere();
  }
}

Reserved Worker::Running() const {
  Reserved running = encoding_;
  for (const EncodeQueue& queue : to_encode_) {
    running += queue.reserved();
  }
  for (const auto& [model, driver] : drivers_) {
    running += driver->reserved();
  }
  return running;
}

absl::Time Worker::next_work() const {
  const auto& [narrow, wide] = to_encode_;
  const absl::Time now = debts_.empty() ? absl::InfinitePast() : SteadyNow();
  absl::Time next = !narrow.empty() ? absl::InfinitePast()
                    : !wide.empty() ? TurnOfWide(wide.next_model(), now)
                                    : absl::InfiniteFuture();
  for (const auto& [key, driver] : drivers_) {
    const absl::Time turn = key.is_wide ? TurnOfWide(key.model, now) : absl::InfinitePast();
    next = std::min(next, std::max(turn, driver->next_work()));
  }
  return next;
}

void Worker::Turn(Requests admitted, const absl::Status& end) {
  Requests wide;
  Requests narrow;
  for (std::unique_ptr<Request>& request : admitted) {
    request->is_wide = IsWide(*request);
    (request->is_wide ? wide : narrow).push_back(std::move(request));
  }
  to_encode_[0].Add(std::move(narrow));
  to_encode_[1].Add(std::move(wide));
  if (!end.ok()) {
    EndAll(end);
  }
  EncodeSome();
  StepAll();
}

void Worker::EncodeSome() {
  auto& [narrow, wide] = to_encode_;
  const absl::Time now = SteadyNow();
  narrow.DropDead(now);
  wide.DropDead(now);
  EncodeSome(narrow, options_.max_encode_positions);
  if (!wide.empty() && TurnOfWide(wide.next_model(), now) <= now) {
    EncodeSome(wide, options_.max_encode_positions / kPartOfWide);
  }
}

void Worker::EncodeSome(EncodeQueue& queue, int64_t positions) {
  for (bool is_first = true; !queue.empty() && (is_first || queue.next_positions() <= positions);
       is_first = false) {
    std::vector<EncodeGroup> groups = TakeGroups(queue, positions);
    for (const EncodeGroup& group : groups) {
      positions -= group.positions;
    }
    EncodeGroups(absl::MakeSpan(groups));
  }
}

std::vector<EncodeGroup> Worker::TakeGroups(EncodeQueue& queue, int64_t positions) {
  std::vector<EncodeGroup> groups;
  do {
    groups.push_back(MakeGroup(queue.TakeGroup(positions)));
    positions -= groups.back().positions;
  } while (context_.num_threads > 1 && !queue.empty() &&
           queue.next_model() == groups[0].requests[0]->model.get() &&
           queue.next_positions() <= positions);
  SplitForThreads(context_.num_threads, groups);
  return groups;
}

void Worker::EncodeGroups(absl::Span<EncodeGroup> groups) {
  const PhaseScope phase(context_.profile, Phase::kPrepare);
  ops::ExecutionContext undivided = context_;
  undivided.profile = nullptr;
  // 1. The requests count as started, and hold what they need while they are encoded.
  const absl::Time begin = SteadyNow();
  const std::shared_ptr<const DecodeModel> model = groups[0].requests[0]->model;
  const bool is_wide = groups[0].requests[0]->is_wide;
  int rows = 0;
  absl::Time deadline = absl::InfinitePast();
  for (const EncodeGroup& group : groups) {
    for (const std::unique_ptr<Request>& request : group.requests) {
      request->started = begin;
      if (request->call.timeline != nullptr) {
        request->call.timeline->started = begin;
      }
      encoding_ += request->reserved();
      rows += request->beam_size;
    }
    deadline = std::max(deadline, group.deadline);
  }
  // 2. The run. Requests of an interrupted run that are still wanted come back in `again`.
  Requests ready;
  Requests again;
  try {
    ready = Encode(undivided, groups, &underway_, &again);
    to_encode_[is_wide ? 1 : 0].Add(std::move(again));
  } catch (const std::bad_alloc&) {
    // The requests were answered when they were destroyed.
  }
  encoding_ = {};
  // 3. Loops look at the deadline themselves: a run that ended late by it counts against the model.
  const absl::Time now = SteadyNow();
  Charge({model.get(), is_wide}, now - begin, rows);
  if (now > deadline && now - begin >= options_.slow_step && !underway_.was_interrupted() &&
      !underway_.interruption().raised()) {
    quarantine_.GivenUp(*model, now);
  }
  // An encoder that reads chunk by chunk is run by the driver.
  if (options_.observer != nullptr && (model->reads_whole_source() || !model->has_encoder())) {
    for (const EncodeGroup& group : groups) {
      options_.observer->OnEncode(*model, group.num_sources, group.positions, group.took);
    }
  }
  if (!ready.empty()) {
    Join(model, std::move(ready));
  }
}

void Worker::Join(const std::shared_ptr<const DecodeModel>& model, Requests ready) {
  try {
    for (auto& request : ready) {
      if (request->call.timeline != nullptr) {
        request->call.timeline->encoded = SteadyNow();
      }
      Driver& driver = DriverOf(model, request->is_wide);
      driver.Join(std::move(request));
    }
  } catch (const std::bad_alloc&) {
    // The requests were answered when they were destroyed.
  }
}

bool Worker::IsWide(const Request& request) const {
  return request.has_long_steps ||
         (!request.is_stream() && request.model->weight_bytes() <= options_.cached_bytes &&
          (request.is_of_crowd || request.beam_size > kNarrowRows * context_.num_threads));
}

Driver& Worker::DriverOf(std::shared_ptr<const DecodeModel> model, bool is_wide) {
  const Key key{model.get(), is_wide};
  auto found = drivers_.find(key);
  if (found == drivers_.end()) {
    std::unique_ptr<Driver> driver = ParkedDrivers::Take(model);
    if (driver == nullptr) {
      driver = model->search().MakeDriver(model);
    }
    found = drivers_.emplace(key, std::move(driver)).first;
  }
  return *found->second;
}

absl::Time Worker::TurnOfWide(const DecodeModel* model, absl::Time now) const {
  const auto debt = debts_.find(model);
  if (debt == debts_.end() || debt->second.owed <= absl::ZeroDuration()) {
    return absl::InfinitePast();
  }
  const auto narrow = drivers_.find({model, false});
  if (!to_encode_[0].empty() ||
      (narrow != drivers_.end() && !narrow->second->idle() && narrow->second->next_work() <= now)) {
    return absl::InfiniteFuture();
  }
  return std::min(debt->second.narrow_ended + kBetweenCalls,
                  debt->second.since + debt->second.owed);
}

void Worker::Charge(const Key& key, absl::Duration took, int rows) {
  const absl::Time now = SteadyNow();
  if (key.is_wide) {
    const auto narrow = drivers_.find({key.model, false});
    const int others = narrow == drivers_.end() ? 0 : narrow->second->num_rows();
    // Debts of models that are gone, and of those without wide requests, are forgotten.
    std::erase_if(debts_, [now](const auto& debt) { return now - debt.second.since > kLinger; });
    Debt& debt = debts_.try_emplace(key.model, Debt{{}, {}, absl::InfinitePast()}).first->second;
    debt.owed = took * std::max(kNarrowShare, others / std::max<double>(1, rows));
    debt.since = now;
  } else if (const auto debt = debts_.find(key.model); debt != debts_.end()) {
    debt->second.owed -= took;
    debt->second.narrow_ended = now;
  }
}

void Worker::Step(const Key& key, Driver& driver) {
  const DecodeModel& model = *key.model;
  const absl::Time begin = SteadyNow();
  const bool waits = !driver.idle() && driver.next_work() > begin;
  if (waits || (key.is_wide && TurnOfWide(key.model, begin) > begin)) {
    return;
  }
  StepFacts facts;
  facts.num_rows = driver.num_rows();
  const int64_t before = driver.num_done();
  try {
    facts.selection = driver.Step(context_, options_.observer, &underway_);
  } catch (const std::bad_alloc&) {
    // The running requests fail: the next ones need the memory that they held.
    driver.FailAll(status::OutOfMemory());
  }
  if (driver.num_done() > before) {
    quarantine_.Decoded(model);
  }
  facts.took = SteadyNow() - begin;
  Charge(key, facts.took, facts.num_rows);
  if (options_.observer != nullptr && facts.num_rows > 0) {
    options_.observer->OnStep(model, facts);
  }
}

void Worker::StepAll() {
  // Models take turns, step by step; a driver without work is parked. During a step KeepOnly may
  // move other drivers to another worker, so the position is looked up again.
  for (auto it = drivers_.begin(); it != drivers_.end();) {
    const Key key = it->first;
    Step(key, *it->second);
    it = drivers_.find(key);
    if (it->second->idle()) {
      ParkedDrivers::Park(std::move(it->second));
      it = drivers_.erase(it);
    } else {
      ++it;
    }
  }
}

void Worker::EndAll(const absl::Status& why) {
  for (EncodeQueue& queue : to_encode_) {
    queue.FailAll(why);
  }
  for (const auto& [key, driver] : drivers_) {
    try {
      driver->End(why);
    } catch (const std::bad_alloc&) {
      driver->FailAll(why);  // those without an answer yet
    }
  }
}

Worker::Left Worker::AnswerMeanwhile(const Underway::Work& work, absl::Time now,
                                     const absl::Status& end) {
  for (EncodeQueue& queue : to_encode_) {
    end.ok() ? queue.DropDead(now) : queue.FailAll(end);
  }
  for (const auto& [key, driver] : drivers_) {
    driver->AnswerMeanwhile(now, end, options_.observer);
  }
  Left left;
  for (Request* const request : work.requests) {
    // Requests of a step were looked at by their driver; here those of an encoder run.
    if (work.driver == nullptr && !request->is_answered) {
      const absl::Status status = end.ok() ? request->CheckAlive(now) : end;
      if (!status.ok()) {
        request->Fail(status);
      }
    }
    if (work.driver == nullptr || request->takes_part) {
      (request->is_answered ? left.gone : left.there) = true;
    }
  }
  return left;
}

void Worker::Look(absl::Time now, const absl::Status& end,
                  absl::FunctionRef<void(const DecodeModel&)> slow) {
  LookAtInbox(now, end);
  LookAtRun(now, end, slow);
}

void Worker::LookAtInbox(absl::Time now, const absl::Status& end) {
  absl::MutexLock lock(&mutex_);
  if (!inbox_.empty()) {
    end.ok() ? inbox_.DropDead(now) : inbox_.FailAll(end);
    Report(reported_);
  }
}

void Worker::LookAtRun(absl::Time now, const absl::Status& end,
                       absl::FunctionRef<void(const DecodeModel&)> slow) {
  absl::MutexLock lock(&underway_.mutex());
  const Underway::Work work = underway_.work();
  const absl::Duration took = now - work.since;
  if (work.model == nullptr || took < std::min(kPatience, options_.slow_step)) {
    return;
  }
  // 1. A slow run: other models go on without it.
  const bool is_slow = took >= std::min(options_.slow_step, options_.step_timeout);
  if (is_slow && !is_alone_) {
    slow(*work.model);
  }
  // 2. Cancelled and expired requests are answered. If one of them took part in a slow run, the
  // others repeat the run without it: perhaps its source made the run slow.
  const Left left = AnswerMeanwhile(work, now, end);
  const bool is_late = left.there && took >= options_.step_timeout;
  if (underway_.interruption().raised() || !(is_late || !left.there || (left.gone && is_slow))) {
    return;
  }
  // 3. The run is interrupted, and counts against its model.
  bool is_out = false;
  if (is_late) {
    for (Request* const request : work.requests) {
      request->Fail(TimedOut(took));
    }
    is_out = quarantine_.TimedOut(*work.model, now);
  } else if (is_slow && end.ok()) {
    is_out = quarantine_.GivenUp(*work.model, now);
  }
  underway_.interruption().Raise();
  // 4. The model is out of service from now on: requests that wait for it here are refused.
  if (is_out) {
    const absl::Status out = quarantine_.CheckHung(*work.model, now);
    if (is_alone_) {
      AnswerMeanwhile(work, now, out);
    }
    absl::MutexLock inbox_lock(&mutex_);
    inbox_.FailAll(out);
    Report(reported_);
  }
}

void Worker::KeepOnly(const DecodeModel& model, Worker& rest) {
  for (size_t i = 0; i < to_encode_.size(); ++i) {
    to_encode_[i].MoveOthers(model, rest.to_encode_[i]);
  }
  for (auto it = drivers_.begin(); it != drivers_.end();) {
    const auto next = std::next(it);
    if (it->first.model != &model) {
      rest.drivers_.insert(drivers_.extract(it));
    }
    it = next;
  }
  is_alone_ = true;
  absl::MutexLock lock(&mutex_);
  own_model_ = &model;
  Report(Running());
}

void Worker::Report(const Reserved& running) {
  reported_ = running;
  Reserved all = running;
  all.requests += inbox_.reserved().requests;
  admission_.SetApart(this, all);
}

bool Worker::HandOver(std::unique_ptr<Request>& request) {
  absl::MutexLock lock(&mutex_);
  if (own_model_ == nullptr || own_model_ != request->model.get()) {
    return false;
  }
  Requests one;
  one.push_back(std::move(request));
  inbox_.Add(std::move(one));
  Report(reported_);
  return true;
}

bool Worker::TakeHandedOver(Requests& admitted, absl::Status& end) {
  absl::MutexLock lock(&mutex_);
  Reserved running = Running();
  if (running.requests == 0 && inbox_.empty()) {
    Report(running);
    const auto has_news = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return stops_ || !inbox_.empty();
    };
    mutex_.AwaitWithTimeout(absl::Condition(&has_news), kLinger);
    if (inbox_.empty()) {
      Report(running);
      own_model_ = nullptr;
      return false;
    }
  } else if (inbox_.empty() && next_work() > SteadyNow()) {
    // Streams of the model wait for frames; FrameFeed wakes the admission, not this worker.
    constexpr absl::Duration kLook = absl::Milliseconds(10);
    const auto has_news = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !inbox_.empty(); };
    mutex_.AwaitWithTimeout(absl::Condition(&has_news), kLook);
  }
  end = admission_.end();
  // Half of all rows and bytes are left to other models. Streams that wait hold no rows: they must
  // not keep other requests out.
  admitted = inbox_.TakeFront(options_.max_rows / 2 - running.rows,
                              options_.max_bytes / 2 - running.bytes, running.rows == 0);
  running += ReservedFor(admitted);
  Report(running);
  return true;
}

void Worker::Stop() {
  absl::MutexLock lock(&mutex_);
  stops_ = true;
}

void Worker::SetEnded() {
  absl::MutexLock lock(&mutex_);
  has_ended_ = true;
}

bool Worker::has_ended() const {
  absl::MutexLock lock(&mutex_);
  return has_ended_;
}

}  // namespace beamwright::engine
