// Core: what every call is served with, whatever it asks for and over whichever protocol. The calls
// themselves are in decode.h; a protocol parses what it received, hands it to one of
// them, and writes what comes back. It never talks to the engine.
#ifndef BEAMWRIGHT_SERVER_SERVING_CORE_H_
#define BEAMWRIGHT_SERVER_SERVING_CORE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "google/rpc/status.pb.h"
#include "include/beamwright/engine.h"
#include "server/serving/availability.h"
#include "server/serving/caller.h"
#include "server/serving/memory_account.h"
#include "server/serving/metrics.h"
#include "server/serving/model_registry.h"
#include "server/serving/server_threads.h"
#include "server/serving/serving_state.h"

namespace beamwright::serving {

// RefusalCache: refusals ready to be sent. A full queue refuses thousands of sources a second, all
// in the same words: they are written once. Thread-safe.
class RefusalCache {
 public:
  // As ToRpcStatus; a copy if the refusal before it was the same.
  google::rpc::Status OnWire(const absl::Status& status);

 private:
  absl::Mutex mutex_;
  absl::Status last_ ABSL_GUARDED_BY(mutex_);
  google::rpc::Status last_on_wire_ ABSL_GUARDED_BY(mutex_);
};

// What was done for a call, as in CallRecord.
struct CallWork {
  int num_sources = 0;
  const v1::DecodeResponse* response = nullptr;
  absl::Span<const engine::Timeline> timelines = {};
  double queue_ms = 0;
  double compute_ms = 0;
  int num_failed = 0;
};

// Every call that is answered is counted here, and what keeps an account of calls (access log,
// tracer) is notified. Thread-safe but for Observe. The metrics must outlive it.
class CallCounter {
 public:
  explicit CallCounter(Metrics& metrics) : metrics_(metrics) {}

  // Calls `observer` for every call that is answered. Before the first call; it must outlive this.
  void Observe(CallObserver* observer) { observers_.push_back(observer); }
  // `model` is null if the call names none that is served.
  void Count(const Caller& caller, const engine::DecodeModel* model, const absl::Status& status,
             absl::Time started, const CallWork& work);
  // A call that is refused before it is read.
  void Refuse(const absl::Status& status, const Caller& caller);
  // For the engine to fill in, of the first of these sources; none unless an observer wants them.
  std::vector<engine::Timeline> MakeTimelines(const CallContext& context, int num_sources) const;

 private:
  Metrics& metrics_;
  std::vector<CallObserver*> observers_;
};

// Thread-safe. What it is made from must outlive it.
class Core {
 public:
  Core(ServingState& state, ModelRegistry& models, engine::Engine& engine, Metrics& metrics)
      : state_(state), models_(models), engine_(engine), metrics_(metrics) {}
  // Drains the engine: its callbacks come here.
  ~Core() {
    models_.EndWaiting();
    long_work_.End(ShuttingDown());
    engine_.Drain();
  }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  ServingState& state() const { return state_; }
  ModelRegistry& models() const { return models_; }
  engine::Engine& engine() const { return engine_; }
  Metrics& metrics() const { return metrics_; }
  CallCounter& calls() { return calls_; }
  engine::Quarantine& quarantine() { return engine_.quarantine(); }
  Availability& availability() { return availability_; }
  // What a protocol may send along with an answer, for those who balance by load.
  LoadReporter& load_reporter() { return load_reporter_; }
  // Errors of sources, and of calls, as they are sent.
  RefusalCache& source_refusals() { return source_refusals_; }
  RefusalCache& call_refusals() { return call_refusals_; }
  // What listeners hold for callers. Without a limit until SetLimit.
  MemoryAccount& memory() { return memory_; }
  // Ends idle streams. None until SetIdle.
  StreamWatch& streams() { return streams_; }
  // A number for a call, which no other has.
  uint64_t NextCall() { return next_call_.fetch_add(1, std::memory_order_relaxed); }
  // Where answers are written.
  TaskThread& replies() { return replies_; }
  // Where the parts of calls are done that take long before the engine has them.
  TurnThread& long_work() { return long_work_; }
  // Where large bodies of HTTP requests are read from their sockets.
  TaskThread& bodies() { return bodies_; }

 private:
  static constexpr int kMostLongWork = 1024;

  ServingState& state_;
  ModelRegistry& models_;
  engine::Engine& engine_;
  Metrics& metrics_;
  MemoryAccount memory_;  // before what may have holds
  CallCounter calls_{metrics_};
  LoadReporter load_reporter_{engine_, metrics_};
  Availability availability_{models_, engine_.quarantine(), state_};
  std::atomic<uint64_t> next_call_{1};
  RefusalCache source_refusals_;
  RefusalCache call_refusals_;
  TaskThread replies_{"bw-replies"};
  StreamWatch streams_;
  TurnThread long_work_{"bw-long-work", kMostLongWork};
  TaskThread bodies_{"bw-bodies"};
};

// The engine's options for a call, and for no other: its sources take turns as one.
engine::CallOptions EngineOptions(Core& core, const Caller& caller);

// Whether it takes long to read a call's options: they have a pattern or a schema that was not
// compiled lately. Long: too long for a thread that calls share.
bool TakeLongToRead(const engine::DecodeModel& model, const v1::DecodeOptions& options);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_CORE_H_
