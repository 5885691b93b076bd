#include "server/serving/load_report.h"

#include <algorithm>

#include "ops/base/cpu.h"
#include "ops/base/steady_time.h"
#include "xds/data/orca/v3/orca_load_report.pb.h"

namespace beamwright::serving {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(250);

}  // namespace

std::string LoadReporter::Report() {
  const absl::Time now = SteadyNow();
  absl::MutexLock lock(&mutex_);
  if (now - made_ < kInterval) {
    return report_;
  }
  // Rates begin with the second report; an idle hour counts as one interval.
  const double seconds = absl::ToDoubleSeconds(now - made_);
  const double cpu_seconds = ProcessCpuSeconds();
  const Metrics::CallCounts counts = metrics_.Counts();
  const engine::Engine::Load load = engine_.load();
  xds::data::orca::v3::OrcaLoadReport report;
  if (made_ != absl::InfinitePast()) {
    report.set_cpu_utilization((cpu_seconds - cpu_seconds_) / seconds / std::max(1, UsableCpus()));
    report.set_rps_fractional(static_cast<double>(counts.all - calls_) / seconds);
    report.set_eps(static_cast<double>(counts.errors - errors_) / seconds);
  }
  report.set_application_utilization(static_cast<double>(load.rows) / std::max(1, load.max_rows));
  (*report.mutable_named_metrics())["queue"] = load.waiting;
  made_ = now;
  cpu_seconds_ = cpu_seconds;
  calls_ = counts.all;
  errors_ = counts.errors;
  report_ = report.SerializeAsString();
  return report_;
}

}  // namespace beamwright::serving
