#include "server/engine/engine.h"

#include <algorithm>
#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "ops/base/cpu.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "server/engine/beam_driver.h"
#include "server/engine/decode_options.h"
#include "server/engine/encode.h"
#include "server/engine/estimator.h"
#include "server/engine/fair_queue.h"
#include "server/engine/score_options.h"
#include "server/model/error_details.h"

namespace beamwright::engine {
namespace {

using Requests = std::vector<std::unique_ptr<Request>>;

// Most bytes that admitted requests may hold together (see PriceBytes).
constexpr int64_t kMaxBytes = int64_t{4} << 30;

// How long before its deadline a search is cut that has `time` for all.
absl::Duration CutMargin(absl::Duration time) {
  return std::clamp(time / 10, absl::Milliseconds(5), absl::Milliseconds(100));
}

// How often the queue is searched for requests that nobody waits for any more.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(5);
// Bounds of what refused clients are told to wait.
constexpr absl::Duration kSoonest = absl::Milliseconds(20);
constexpr absl::Duration kLatest = absl::Seconds(10);

struct Queued : Ticket {
  std::unique_ptr<Request> request;
};

// What a request holds before it runs: its source, and about as much for itself.
int64_t WaitingBytes(const PreparedSource& source) {
  constexpr int64_t kOwnBytes = 4096;
  int64_t bytes = kOwnBytes;
  if (source.encoder_input.has_value()) {
    bytes += source.encoder_input->num_bytes();
  }
  for (const ops::Tensor& input : source.decoder_inputs) {
    bytes += input.num_bytes();
  }
  return bytes;
}

class Scheduler : public Engine {
 public:
  explicit Scheduler(const EngineOptions& options)
      : options_(options),
        queue_({options.max_queue, options.max_queue_rows, options.max_queue_bytes}) {
    context_.num_threads = options.num_threads;
    thread_ = std::thread([this] { Run(); });
  }

  ~Scheduler() override {
    Drain();
    thread_.join();
  }

  void DecodeResolved(std::shared_ptr<const DecodeModel> model, v1::Source source,
                      std::shared_ptr<const ResolvedOptions> options, const CallOptions& call,
                      Callback done) override {
    Accept(MakeRequest(std::move(model), source, *options, call), std::move(done));
  }

  void Score(std::shared_ptr<const DecodeModel> model, v1::ScoreSource source,
             const v1::ScoreOptions& options, const CallOptions& call,
             ScoreCallback done) override {
    Accept(MakeScoreRequest(std::move(model), source, options, call), std::move(done));
  }

  void Drain() override {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    mutex_.Await(absl::Condition(
        +[](Scheduler* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
          return self->queue_.size() == 0 && self->dead_.empty() && self->load_.running == 0;
        },
        this));
  }

  void End(absl::Status why) override {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    end_ = std::move(why);
  }

  Load load() const override {
    absl::MutexLock lock(&mutex_);
    Load load = load_;
    const absl::Time now = absl::Now();
    load.waiting = queue_.size();
    load.max_rows = options_.max_rows;
    load.num_threads = options_.num_threads;
    load.oldest_wait = queue_.size() == 0 ? absl::ZeroDuration() : now - queue_.oldest();
    load.turn = std::max(now - turn_started_, absl::ZeroDuration());
    return load;
  }

  std::vector<TenantLoad> Tenants() const override {
    absl::MutexLock lock(&mutex_);
    return queue_.Tenants();
  }

 private:
  template <typename Done>
  void Accept(absl::StatusOr<std::unique_ptr<Request>> request, Done done) {
    if (!request.ok()) {
      done(request.status());
      return;
    }
    (*request)->done = std::move(done);
    if (const absl::Status status = Enqueue(*request); !status.ok()) {
      (*request)->Fail(status);
    }
  }

  absl::StatusOr<std::unique_ptr<Request>> MakeRequest(std::shared_ptr<const DecodeModel> model,
                                                       const v1::Source& source,
                                                       const ResolvedOptions& resolved,
                                                       const CallOptions& call) const {
    std::unique_ptr<Request> request = NewRequest(call);
    BW_ASSIGN_OR_RETURN(request->source, PrepareSource(*model, source));
    BW_ASSIGN_OR_RETURN(const search::SearchOptions search,
                        OptionsForSource(*model, resolved, request->source));
    request->wants_lattice = resolved.merged.lattice();
    BW_RETURN_IF_ERROR(SetPrice(*model, search, resolved.merged.attention(), *request));
    request->may_be_cut = search.may_be_cut;
    if (search.may_be_cut && call.deadline != absl::InfiniteFuture()) {
      request->cut_at = call.deadline - CutMargin(call.deadline - request->accepted);
    }
    BW_ASSIGN_OR_RETURN(search::BeamSearch beam_search, search::BeamSearch::Create(search));
    request->search = std::move(beam_search);
    request->model = std::move(model);
    request->Prepare();
    return request;
  }

  absl::StatusOr<std::unique_ptr<Request>> MakeScoreRequest(
      std::shared_ptr<const DecodeModel> model, const v1::ScoreSource& source,
      const v1::ScoreOptions& options, const CallOptions& call) const {
    std::unique_ptr<Request> request = NewRequest(call);
    BW_ASSIGN_OR_RETURN(ResolvedScoring resolved, ResolveScoring(*model, options));
    BW_ASSIGN_OR_RETURN(std::vector<search::TokenSequence> targets,
                        ReadTargets(*model, resolved.merged, source.targets()));
    BW_ASSIGN_OR_RETURN(request->source, PrepareSource(*model, source.source()));
    search::SearchOptions& search = resolved.search;
    search.beam_size = static_cast<int>(targets.size());
    for (const search::TokenSequence& target : targets) {
      search.max_length = std::max(search.max_length, static_cast<int>(target.size()));
    }
    BW_RETURN_IF_ERROR(SetPrice(*model, search, resolved.merged.attention(), *request));
    BW_ASSIGN_OR_RETURN(search::TargetScorer scorer,
                        search::TargetScorer::Create(search, std::move(targets)));
    request->scorer = std::move(scorer);
    request->model = std::move(model);
    request->Prepare();
    return request;
  }

  static std::unique_ptr<Request> NewRequest(const CallOptions& call) {
    auto request = std::make_unique<Request>();
    request->accepted = absl::Now();
    request->started = absl::InfinitePast();
    request->call = call;
    return request;
  }

  // How many rows and bytes the request takes; ResourceExhausted if that is more than there are.
  absl::Status SetPrice(const DecodeModel& model, const search::SearchOptions& search,
                        v1::Attention attention, Request& request) const {
    const bool keeps = attention == v1::ATTENTION_HARD || attention == v1::ATTENTION_SOFT;
    request.wants_attention = attention;
    request.reads_attention = keeps || search.coverage_penalty > 0;
    request.attention = AttentionHistory(keeps);
    request.beam_size = search.beam_size;
    request.max_steps = search.max_length;
    request.price_bytes = PriceBytes(model, search, request.source.source_length, keeps);
    if (search.beam_size > options_.max_rows) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the request needs ", search.beam_size, " rows; the server has ", options_.max_rows));
    }
    if (request.price_bytes > kMaxBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the request would hold ", request.price_bytes, " bytes; at most ", kMaxBytes,
          " are allowed (beam size, maximum length and source length count)"));
    }
    return absl::OkStatus();
  }

  // Moves from `request` unless it refuses.
  absl::Status Enqueue(std::unique_ptr<Request>& request) {
    const absl::Time now = absl::Now();
    auto queued = std::make_unique<Queued>();
    queued->tenant = request->call.tenant;
    queued->priority = request->call.priority;
    queued->call = request->call.call;
    queued->rows = request->beam_size;
    queued->running_bytes = request->price_bytes;
    queued->waiting_bytes = WaitingBytes(request->source);
    queued->accepted = request->accepted;
    queued->deadline = request->call.deadline;
    queued->cancelled = request->call.cancelled;
    absl::MutexLock lock(&mutex_);
    if (draining_) {
      return model::WithReason(
          absl::UnavailableError("the server is draining; try another replica"),
          model::reason::kShuttingDown);
    }
    Estimator::Forecast forecast = estimator_.Of(
        request->model->name(), request->source.source_length, request->max_steps, now);
    if (request->scorer.has_value()) {
      forecast.steps = request->max_steps;
    }
    if (request->cut_at != absl::InfiniteFuture()) {
      forecast.took = absl::ZeroDuration();  // it answers with what it has by then
    }
    queued->cost = std::max(1.0, forecast.steps * queued->rows);
    BW_RETURN_IF_ERROR(CheckDeadline(*queued, forecast, now));
    if (queue_.size() >= options_.max_queue) {
      Sweep(now);
    }
    queued->request = std::move(request);
    std::unique_ptr<Ticket> ticket = std::move(queued);
    absl::Status status = queue_.Push(ticket, now);
    if (!status.ok()) {
      request = std::move(static_cast<Queued&>(*ticket).request);
      if (model::ReasonOf(status) == model::reason::kQueueFull) {
        status = model::WithRetryAfter(std::move(status), UntilRoom());
      }
    }
    return status;
  }

  // ResourceExhausted if the deadline will have passed before the answer is there. While there is
  // no other work nobody is refused: only then can an estimate that is wrong come right again. A
  // deadline that has passed already is told as such.
  absl::Status CheckDeadline(const Queued& queued, const Estimator::Forecast& forecast,
                             absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const double rate = estimator_.row_steps_per_second();
    if (!options_.forecast_deadlines || !forecast.sure || rate <= 0 ||
        queued.deadline == absl::InfiniteFuture() || (queue_.size() == 0 && running_cost_ == 0)) {
      return absl::OkStatus();
    }
    const bool waits = queue_.size() > 0 || load_.rows + queued.rows > options_.max_rows;
    const absl::Duration wait =
        waits ? absl::Seconds((queue_.CostAhead(queued.tenant, queued.cost) + running_cost_ / 2) /
                              rate)
              : absl::ZeroDuration();
    if (now + wait + forecast.took <= queued.deadline) {
      return absl::OkStatus();
    }
    if (queued.deadline <= now) {
      return model::WithReason(
          absl::DeadlineExceededError("the request's deadline passed before it was queued"),
          model::reason::kWouldMissDeadline);
    }
    return model::WithRetryAfter(
        model::WithReason(
            absl::ResourceExhaustedError(absl::StrCat(
                "the answer is expected in ",
                absl::FormatDuration(absl::Trunc(wait + forecast.took, absl::Milliseconds(1))),
                ", after the request's deadline")),
            model::reason::kWouldMissDeadline),
        std::clamp(wait, kSoonest, kLatest));
  }

  // When half of what waits will be done.
  absl::Duration UntilRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const double rate = estimator_.row_steps_per_second();
    double waiting = 0;
    for (const TenantLoad& tenant : queue_.Tenants()) {
      waiting += tenant.waiting_cost;
    }
    return rate <= 0 ? kSoonest : std::clamp(absl::Seconds(waiting / 2 / rate), kSoonest, kLatest);
  }

  // Moves those that are dead out of the queue, for the engine's thread to answer. Looks at all
  // that wait, so not at every turn.
  void Sweep(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (now < next_sweep_) {
      return;
    }
    for (std::unique_ptr<Ticket>& ticket : queue_.TakeDead(now)) {
      dead_.push_back(std::move(static_cast<Queued&>(*ticket).request));
    }
    next_sweep_ = now + kSweepInterval;
  }

  // From now on its end gives back what it holds of its tenant's share, and teaches the estimator.
  void CountIn(Queued& queued) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Request& request = *queued.request;
    running_cost_ += queued.cost;
    std::visit(
        [&](auto& done) {
          done = [this, done = std::move(done), tenant = queued.tenant, rows = queued.rows,
                  cost = queued.cost, model = request.model, length = request.source.source_length,
                  begin = absl::Now()](auto answer) {
            CountOut(tenant, rows, cost);
            Learn(*model, length, answer, absl::Now() - begin);
            done(std::move(answer));
          };
        },
        request.done);
  }

  void CountOut(const TenantPtr& tenant, int rows, double cost) {
    absl::MutexLock lock(&mutex_);
    queue_.Ended(tenant, rows);
    running_cost_ = std::max(running_cost_ - cost, 0.0);
  }

  void Learn(const DecodeModel& model, int length, const absl::StatusOr<v1::Decoded>& decoded,
             absl::Duration took) {
    if (!decoded.ok()) {
      return;
    }
    int steps = 1;
    for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
      steps = std::max(steps, hypothesis.tokens_size());
    }
    absl::MutexLock lock(&mutex_);
    estimator_.Finished(model.name(), length, steps, took, absl::Now());
  }
  // The steps of a given target are known beforehand.
  void Learn(const DecodeModel&, int, const absl::StatusOr<v1::Scored>&, absl::Duration) {}

  // Takes from the queue what fits beside what runs; waits while there is nothing to do at all.
  // False: the engine ends.
  bool Admit(Requests& admitted) {
    int rows = 0;
    int64_t bytes = 0;
    int running = 0;
    for (const auto& [model, driver] : drivers_) {
      rows += driver->reserved_rows();
      bytes += driver->reserved_bytes();
      running += driver->num_requests();
    }
    Requests dead;
    {
      absl::MutexLock lock(&mutex_);
      const absl::Time begin = absl::Now();
      if (load_.running > 0 && turn_started_ != absl::InfiniteFuture()) {
        estimator_.Turn(load_.rows, begin - turn_started_);
      }
      load_.running = running;
      load_.rows = rows;
      if (running == 0) {
        turn_started_ = absl::InfiniteFuture();
        mutex_.Await(absl::Condition(
            +[](Scheduler* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
              return self->draining_ || self->queue_.size() > 0 || !self->dead_.empty();
            },
            this));
        if (queue_.size() == 0 && dead_.empty()) {
          return false;
        }
      }
      ended_with_ = end_;
      turn_started_ = absl::Now();
      Sweep(turn_started_);
      while (std::unique_ptr<Ticket> ticket =
                 queue_.Pop({options_.max_rows - rows, kMaxBytes - bytes})) {
        Queued& queued = static_cast<Queued&>(*ticket);
        rows += queued.rows;
        bytes += queued.running_bytes;
        CountIn(queued);
        admitted.push_back(std::move(queued.request));
      }
      load_.running += static_cast<int>(admitted.size());
      load_.rows = rows;
      dead.swap(dead_);
    }
    const absl::Time now = absl::Now();
    for (const std::unique_ptr<Request>& request : dead) {
      request->Fail(request->CheckAlive(now));
    }
    return true;
  }

  void Start(Requests admitted) {
    const absl::Time now = absl::Now();
    std::map<const DecodeModel*, Requests> by_model;
    for (auto& request : admitted) {
      if (const absl::Status status = request->CheckAlive(now); !status.ok()) {
        request->Fail(status);
        continue;
      }
      request->started = now;
      by_model[request->model.get()].push_back(std::move(request));
    }
    const PhaseScope phase(Phase::kPrepare);
    const StepProfile::Here undivided(nullptr);
    for (auto& [model, requests] : by_model) {
      std::shared_ptr<const DecodeModel> owner = requests[0]->model;
      const absl::Time begin = absl::Now();
      const int num_sources = static_cast<int>(requests.size());
      ops::ExecutionContext context = context_;
      context.deadline = absl::InfinitePast();
      for (const std::unique_ptr<Request>& request : requests) {
        context.deadline = std::max(context.deadline, request->call.deadline);
      }
      Requests ready = Encode(context, std::move(requests));
      if (options_.observer != nullptr) {
        options_.observer->OnEncode(*owner, num_sources, absl::Now() - begin);
      }
      std::unique_ptr<BeamDriver>& driver = drivers_[model];
      if (driver == nullptr) {
        driver = std::make_unique<BeamDriver>(std::move(owner));
      }
      for (auto& request : ready) {
        driver->Join(std::move(request));
      }
    }
  }

  void Step(const DecodeModel& model, BeamDriver& driver) {
    const absl::Time begin = absl::Now();
    const int rows = driver.reserved_rows();
    driver.Step(context_);
    if (options_.observer != nullptr && rows > 0) {
      options_.observer->OnStep(model, rows, absl::Now() - begin);
    }
  }

  // Ends all that was taken so far; what waits is taken in the next turns, and ended as well.
  void EndAll(Requests& admitted) {
    for (const std::unique_ptr<Request>& request : admitted) {
      request->Fail(ended_with_);
    }
    admitted.clear();
    for (const auto& [model, driver] : drivers_) {
      driver->End(ended_with_);
    }
  }

  void Run() {
    const StepProfile::Here profile(options_.profile);
    for (;;) {
      Requests admitted;
      if (!Admit(admitted)) {
        return;
      }
      FaultPoint("engine.turn").IgnoreError();  // a delay at most
      if (!ended_with_.ok()) {
        EndAll(admitted);
      }
      Start(std::move(admitted));
      // Models take turns, step by step; one without work is let go, and its model with it.
      for (auto it = drivers_.begin(); it != drivers_.end();) {
        Step(*it->first, *it->second);
        it = it->second->idle() ? drivers_.erase(it) : std::next(it);
      }
    }
  }

  const EngineOptions options_;
  ops::ExecutionContext context_;
  mutable absl::Mutex mutex_;
  FairQueue queue_ ABSL_GUARDED_BY(mutex_);
  Requests dead_ ABSL_GUARDED_BY(mutex_);  // from the queue, to be answered
  Estimator estimator_ ABSL_GUARDED_BY(mutex_);
  double running_cost_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time next_sweep_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // not OK: everything ends with it
  Load load_ ABSL_GUARDED_BY(mutex_);
  absl::Time turn_started_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  // The scheduler thread's own.
  absl::Status ended_with_;  // end_ at the beginning of the turn
  std::map<const DecodeModel*, std::unique_ptr<BeamDriver>> drivers_;
  std::thread thread_;
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
  if (options.max_rows < 1 || options.max_queue < 1) {
    return Invalid("max_rows (", options.max_rows, ") and max_queue (", options.max_queue,
                   ") must be positive");
  }
  if (options.num_threads == 0) {
    options.num_threads = UsableCpus();
  }
  return std::make_unique<Scheduler>(options);
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
