// LoadReporter: how busy this server is, as gRPC's weighted_round_robin asks every answer for it
// (ORCA, gRFC A51). The distribution's gRPC declares an API for it and lacks the code.
#ifndef BEAMWRIGHT_SERVER_SERVING_LOAD_REPORT_H_
#define BEAMWRIGHT_SERVER_SERVING_LOAD_REPORT_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "include/beamwright/engine.h"
#include "server/serving/metrics.h"

namespace beamwright::serving {

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

#endif  // BEAMWRIGHT_SERVER_SERVING_LOAD_REPORT_H_
