// Decoder: a call of several sources, from its request to its response, the same for every
// protocol. A protocol parses what it received into a Job and writes what comes back; it never
// talks to the engine.
#ifndef BEAMWRIGHT_SERVER_SERVING_DECODER_H_
#define BEAMWRIGHT_SERVER_SERVING_DECODER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "server/engine/engine.h"
#include "server/serving/availability.h"
#include "server/serving/call_record.h"
#include "server/serving/load_report.h"
#include "server/serving/metrics.h"
#include "server/serving/model_registry.h"
#include "server/serving/quarantine.h"
#include "server/serving/refusal_cache.h"
#include "server/serving/serving_state.h"
#include "server/serving/task_thread.h"

namespace beamwright::serving {

inline constexpr int kMaxSources = 4096;

// What to decode: the request's sources and options with the model that its name stands for.
struct Job {
  ModelPtr model;
  v1::DecodeRequest request;
};

struct Caller {
  Method method;
  absl::Time deadline = absl::InfiniteFuture();
  // Of a client that may give up; it is told when nobody waits for the answer any more. May be
  // null.
  std::shared_ptr<const engine::CancelFlag> cancelled;
  // The call fails with the first source that fails, where a protocol has no answer for a part of
  // them.
  bool all_or_nothing = false;
  CallContext context = {};
  // As in engine::CallOptions; for a call with one source.
  std::function<void(engine::Progress)> progress;
  bool wants_provisional = false;
  // Whose share of the engine the call takes; null: that of callers without a name.
  engine::TenantPtr tenant;
  // From engine::kHighestPriority to engine::kLowestPriority, within the tenant.
  int priority = engine::kNormalPriority;
  // Turns the response into the protocol's own form before the call is counted: where it fails, the
  // call fails with it. May be null.
  std::function<absl::Status(const v1::DecodeResponse&)> convert;
};

// Thread-safe. What it is made from must outlive it.
class Decoder {
 public:
  using Done = std::function<void(absl::StatusOr<v1::DecodeResponse>)>;

  Decoder(ServingState& state, ModelRegistry& models, engine::Engine& engine, Metrics& metrics,
          const QuarantineOptions& quarantine = {})
      : state_(state),
        models_(models),
        engine_(engine),
        metrics_(metrics),
        quarantine_(quarantine) {
    engine_.ObserveHangs(
        [this](const engine::DecodeModel& model) { quarantine_.TakeOut(model, absl::Now()); });
  }
  // Drains the engine: its callbacks come here.
  ~Decoder() {
    engine_.Drain();
    engine_.ObserveHangs(nullptr);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // The job of a request: its model looked up. Errors as ModelRegistry::Lookup's.
  absl::StatusOr<Job> MakeJob(v1::DecodeRequest request) const;

  // Decodes every source on its own; `done` is called once: at once for a call that is refused, or
  // whose sources all are, else on the reply thread or, while it has no other work, the engine's. A
  // job that is an error is refused with it, and counted like any other. The call fails as a whole
  // for faults of the request (no source, options out of range), while the server refuses calls,
  // when it was cancelled, and when no source was decoded (source_errors.h).
  void Decode(absl::StatusOr<Job> job, const Caller& caller, Done done);

  // Tells `observer` of every call that is answered. Before the first call; it must outlive this.
  void Observe(CallObserver* observer) { observers_.push_back(observer); }
  // What was done for a call, as in CallRecord.
  struct Work {
    int num_sources = 0;
    const v1::DecodeResponse* response = nullptr;
    absl::Span<const engine::Timeline> timelines = {};
    double queue_ms = 0;
    double compute_ms = 0;
    int num_failed = 0;
  };
  // Counts a call that is answered, and tells the observers. `model` is null if the call names none
  // that is served.
  void CountCall(const Caller& caller, const engine::DecodeModel* model, const absl::Status& status,
                 absl::Time started, const Work& work);
  // For the engine to fill in, of the first of so many sources; none unless an observer wants them.
  std::vector<engine::Timeline> MakeTimelines(const CallContext& context, int num_sources) const;
  // What a protocol may send along with an answer, for those who balance by load.
  LoadReporter& load_reporter() { return load_reporter_; }
  // Counts a call that is refused before it is read.
  void Refuse(const absl::Status& status, const Caller& caller);

  ServingState& state() const { return state_; }
  ModelRegistry& models() const { return models_; }
  // Whether so many sources may be asked of a model in a call; `verb`: what is to be done with
  // them. InvalidArgument, Unavailable for a model in quarantine.
  absl::Status CheckSources(const engine::DecodeModel& model, int num_sources, const char* verb,
                            absl::Time now);
  // What the engine is told of a call, and of no other: its sources take turns as one.
  engine::CallOptions EngineOptions(const Caller& caller);
  // As ToRpcStatus, for the error of a source and of a call. Refusals for want of room come in
  // thousands, and are copies of one.
  google::rpc::Status OnWire(const absl::Status& status) { return source_refusals_.OnWire(status); }
  google::rpc::Status CallOnWire(const absl::Status& status) {
    return call_refusals_.OnWire(status);
  }
  Quarantine& quarantine() { return quarantine_; }
  Availability& availability() { return availability_; }
  engine::Engine& engine() const { return engine_; }
  Metrics& metrics() const { return metrics_; }
  // Runs `reply` soon on the thread where answers are written, in the order of posting.
  void Post(std::function<void()> reply) { replies_.Post(std::move(reply)); }
  // For the engine's thread, when it has answered the last source of a call that has so many. Runs
  // `reply` soon; here, which spares the way through another thread, if nobody waits for the
  // engine and it cannot take long.
  void Reply(int num_sources, std::function<void()> reply);

 private:
  ServingState& state_;
  ModelRegistry& models_;
  engine::Engine& engine_;
  Metrics& metrics_;
  std::vector<CallObserver*> observers_;
  LoadReporter load_reporter_{engine_, metrics_};
  Quarantine quarantine_;
  Availability availability_{models_, quarantine_, state_};
  std::atomic<uint64_t> next_call_{1};
  RefusalCache source_refusals_;
  RefusalCache call_refusals_;
  TaskThread replies_{"bw-replies"};
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_DECODER_H_
