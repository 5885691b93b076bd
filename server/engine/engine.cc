#include "server/engine/engine.h"

#include <pthread.h>

#include <map>
#include <new>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "ops/base/cpu.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/time_slice.h"
#include "server/engine/admission.h"
#include "server/engine/beam_driver.h"
#include "server/engine/encode.h"
#include "server/engine/encode_queue.h"
#include "server/engine/make_request.h"
#include "server/engine/parked_drivers.h"
#include "server/model/error_details.h"

namespace beamwright::engine {
namespace {

using Requests = std::vector<std::unique_ptr<Request>>;

// A thread that steps requests, with a compute team of its own. A turn: admit, encode some of those
// that were admitted, and one step of every model.
class Stream {
 public:
  Stream(const EngineOptions& options, int number, Admission& admission)
      : options_(options), number_(number), admission_(admission) {
    context_.num_threads = options.num_threads / options.num_streams;
    thread_ = std::thread([this] { Run(); });
  }
  // Once the admission is drained.
  ~Stream() { thread_.join(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

 private:
  Admission::Running Running() const {
    Admission::Running running{to_encode_.num_requests(), to_encode_.reserved_rows(),
                               to_encode_.reserved_bytes()};
    for (const auto& [model, driver] : drivers_) {
      running.requests += driver->num_requests();
      running.rows += driver->reserved_rows();
      running.bytes += driver->reserved_bytes();
    }
    return running;
  }

  // As much as may be encoded between two steps, and one source in any case.
  void EncodeSome() {
    to_encode_.DropDead(absl::Now());
    int64_t left = options_.max_encode_positions;
    for (bool is_first = true;
         !to_encode_.empty() && (is_first || to_encode_.next_positions() <= left);
         is_first = false) {
      left -= EncodeGroup(to_encode_.TakeGroup(left));
    }
  }

  // Requests of one model; those that it does not fail join the running ones. Returns how many
  // source positions they have.
  int64_t EncodeGroup(Requests group) {
    const PhaseScope phase(Phase::kPrepare);
    const StepProfile::Here undivided(nullptr);
    const absl::Time begin = absl::Now();
    std::shared_ptr<const DecodeModel> model = group[0]->model;
    const auto num_sources = static_cast<int>(group.size());
    int64_t positions = 0;
    ops::ExecutionContext context = context_;
    context.deadline = absl::InfinitePast();
    for (const std::unique_ptr<Request>& request : group) {
      request->started = begin;
      if (request->call.timeline != nullptr) {
        request->call.timeline->started = begin;
      }
      positions += EncodePositions(*request);
      context.deadline = std::max(context.deadline, request->call.deadline);
    }
    Requests ready;
    try {
      ready = Encode(context, std::move(group));
    } catch (const std::bad_alloc&) {
      // The requests were told as they went.
    }
    if (options_.observer != nullptr) {
      options_.observer->OnEncode(*model, num_sources, positions, absl::Now() - begin);
    }
    try {
      BeamDriver& driver = DriverOf(std::move(model));
      for (auto& request : ready) {
        if (request->call.timeline != nullptr) {
          request->call.timeline->encoded = absl::Now();
        }
        driver.Join(std::move(request));
      }
    } catch (const std::bad_alloc&) {
      // The same.
    }
    return positions;
  }

  BeamDriver& DriverOf(std::shared_ptr<const DecodeModel> model) {
    const DecodeModel* const key = model.get();
    auto found = drivers_.find(key);
    if (found == drivers_.end()) {
      found = drivers_.emplace(key, ParkedDrivers::Take(std::move(model))).first;
    }
    return *found->second;
  }

  void Step(const DecodeModel& model, BeamDriver& driver) {
    const absl::Time begin = absl::Now();
    StepFacts facts;
    facts.num_rows = driver.reserved_rows();
    try {
      facts.selection = driver.Step(context_, options_.observer);
    } catch (const std::bad_alloc&) {
      // What ran is given up: the memory that it held is what the next requests need.
      driver.FailAll(model::OutOfMemory());
    }
    if (options_.observer != nullptr && facts.num_rows > 0) {
      facts.took = absl::Now() - begin;
      options_.observer->OnStep(model, facts);
    }
  }

  void Run() {
    // For top and the like; its compute team inherits name and slices.
    pthread_setname_np(pthread_self(), "bw-engine");
    UseUsualTimeSlices();
    const StepProfile::Here profile(number_ == 0 ? options_.profile : nullptr);
    Requests admitted;
    for (absl::Status end; admission_.Take(number_, Running(), admitted, end); admitted.clear()) {
      FaultPoint("engine.turn").IgnoreError();  // a delay at most
      to_encode_.Add(std::move(admitted));
      if (!end.ok()) {
        EndAll(end);
      }
      EncodeSome();
      // Models take turns, step by step; one without work is let go.
      for (auto it = drivers_.begin(); it != drivers_.end();) {
        Step(*it->first, *it->second);
        if (it->second->idle()) {
          ParkedDrivers::Park(std::move(it->second));
          it = drivers_.erase(it);
        } else {
          ++it;
        }
      }
    }
  }

  // Ends all that was taken so far; what waits is taken in the next turns, and ended as well.
  void EndAll(const absl::Status& why) {
    to_encode_.FailAll(why);
    for (const auto& [model, driver] : drivers_) {
      try {
        driver->End(why);
      } catch (const std::bad_alloc&) {
        driver->FailAll(why);  // what of them has no answer yet
      }
    }
  }

  const EngineOptions& options_;
  const int number_;
  Admission& admission_;
  // The thread's own.
  ops::ExecutionContext context_;
  EncodeQueue to_encode_;
  std::map<const DecodeModel*, std::unique_ptr<BeamDriver>> drivers_;
  std::thread thread_;  // last: it uses the others
};

class StreamingEngine : public Engine {
 public:
  explicit StreamingEngine(const EngineOptions& options) : options_(options), admission_(options_) {
    for (int number = 0; number < options_.num_streams; ++number) {
      streams_.push_back(std::make_unique<Stream>(options_, number, admission_));
    }
  }
  ~StreamingEngine() override { Drain(); }

  void DecodeResolved(std::shared_ptr<const DecodeModel> model, v1::Source source,
                      std::shared_ptr<const ResolvedOptions> options, const CallOptions& call,
                      Callback done) override {
    Accept([&] { return MakeRequest(options_, std::move(model), source, *options, call); },
           std::move(done));
  }

  void Score(std::shared_ptr<const DecodeModel> model, v1::ScoreSource source,
             const v1::ScoreOptions& options, const CallOptions& call,
             ScoreCallback done) override {
    Accept([&] { return MakeScoreRequest(options_, std::move(model), source, options, call); },
           std::move(done));
  }

  void Drain() override { admission_.Drain(); }
  void End(absl::Status why) override { admission_.End(std::move(why)); }
  Load load() const override { return admission_.load(); }
  bool idle() const override { return admission_.idle(); }
  std::vector<TenantLoad> Tenants() const override { return admission_.Tenants(); }

 private:
  template <typename Make, typename Done>
  void Accept(const Make& make, Done done) {
    if (absl::Status full = admission_.CheckFull(); !full.ok()) {
      done(std::move(full));
      return;
    }
    absl::StatusOr<std::unique_ptr<Request>> request = nullptr;
    try {
      FaultPoint("engine.accept").IgnoreError();
      request = make();
    } catch (const std::bad_alloc&) {
      request = model::OutOfMemory();
    }
    if (!request.ok()) {
      done(request.status());
      return;
    }
    (*request)->done = std::move(done);
    absl::Status status;
    try {
      status = admission_.Enqueue(*request);
    } catch (const std::bad_alloc&) {
      status = model::OutOfMemory();
    }
    if (!status.ok() && *request != nullptr) {  // what was lost on the way has its answer
      (*request)->Fail(status);
    }
  }

  const EngineOptions options_;
  Admission admission_;
  std::vector<std::unique_ptr<Stream>> streams_;  // they use the others
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
  if (options.max_bytes < 1 || options.max_encode_positions < 1) {
    return Invalid("max_bytes (", options.max_bytes, ") and max_encode_positions (",
                   options.max_encode_positions, ") must be positive");
  }
  if (options.max_rows < 1 || options.max_queue < 1) {
    return Invalid("max_rows (", options.max_rows, ") and max_queue (", options.max_queue,
                   ") must be positive");
  }
  if (options.num_threads == 0) {
    options.num_threads = UsableCpus();
  }
  if (options.num_streams < 1 || options.num_streams > options.num_threads) {
    return Invalid("streams: ", options.num_streams, " is outside [1, ", options.num_threads,
                   "], the number of threads");
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
