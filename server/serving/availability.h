// What a server reports to balancers: which models it can serve at this moment, and how busy it is.
#ifndef BEAMWRIGHT_SERVER_SERVING_AVAILABILITY_H_
#define BEAMWRIGHT_SERVER_SERVING_AVAILABILITY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/request/quarantine.h"
#include "include/beamwright/engine.h"
#include "server/serving/metrics.h"
#include "server/serving/model_registry.h"
#include "server/serving/serving_state.h"

namespace beamwright::serving {

// Availability: who can serve at this moment, reported to health services that push changes to
// their clients. A model is able to serve that is served and not quarantined; whether clients are
// welcome is said by the server's Health, of which it holds the part that depends on models.

// Thread-safe. What it is made of must outlive it.
class Availability {
 public:
  // Notified of a model by its name and of the server by "": Health::ModelReady and Health::ready.
  using Observer = std::function<void(const std::string& name, bool ready)>;

  // Follows registry, quarantine and state, and reports to `state` whether any model is able.
  Availability(ModelRegistry& models, engine::Quarantine& quarantine, ServingState& state);
  ~Availability();
  Availability(const Availability&) = delete;
  Availability& operator=(const Availability&) = delete;

  // Notifies `observer` of all states, and from now on of every change, the end of a
  // quarantine's pause included. Null ends that. It must not call back.
  void Observe(Observer observer);

 private:
  // Looks at all models and reports what has changed.
  void Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(const std::string& name, bool ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Looks again whenever a pause ends.
  void Run();

  ModelRegistry& models_;
  engine::Quarantine& quarantine_;
  ServingState& state_;
  absl::Mutex mutex_;
  // The version that requests get which name none; empty: the model is not served.
  std::map<std::string, std::string> versions_ ABSL_GUARDED_BY(mutex_);
  Observer observer_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, bool> told_ ABSL_GUARDED_BY(mutex_);  // to the observer
  absl::Time next_look_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // next_look_ or stop_ has changed
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

// LoadReporter: how busy this server is, as gRPC's weighted_round_robin asks every answer for it
// (ORCA, gRFC A51). The distribution's gRPC declares an API for it and lacks the code.

// The trailer that carries a report.
inline constexpr char kLoadReportTrailer[] = "endpoint-load-metrics-bin";

// Thread-safe. Engine and metrics must outlive it.
class LoadReporter {
 public:
  LoadReporter(const engine::Engine& engine, const Metrics& metrics)
      : engine_(engine), metrics_(metrics) {}

  // Whether answers are to bear reports; from the start, before the first call.
  void Enable(bool enabled) { enabled_ = enabled; }
  bool enabled() const { return enabled_; }

  // An xds.data.orca.v3.OrcaLoadReport of the last quarter of a second, serialised. Made anew when
  // it is older than that.
  std::string Report();

 private:
  const engine::Engine& engine_;
  const Metrics& metrics_;
  bool enabled_ = false;
  absl::Mutex mutex_;
  absl::Time made_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  double cpu_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t errors_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string report_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_AVAILABILITY_H_
