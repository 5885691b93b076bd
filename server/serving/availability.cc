// Look is the one place that decides: for each model whether its version is served and not in
// quarantine, and from all of them the server's health. It runs under the mutex whenever a source
// of news says that something changed (a registry's version, a quarantine, the phase), and on the
// thread when a quarantine ends (next_look_). The observer gets only what is new. Reports of load
// for balancers are made when they are asked for.
#include "server/serving/availability.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "ops/base/cpu.h"
#include "ops/base/steady_time.h"
#include "xds/data/orca/v3/orca_load_report.pb.h"

namespace beamwright::serving {

Availability::Availability(ModelRegistry& models, engine::Quarantine& quarantine,
                           ServingState& state)
    : models_(models), quarantine_(quarantine), state_(state) {
  models_.Observe([this](const std::string& model, const std::string& version) {
    absl::MutexLock lock(&mutex_);
    versions_[model] = version;
    Look();
  });
  quarantine_.Observe([this](const engine::DecodeModel& model, const std::string& why) {
    if (!why.empty()) {
      spdlog::error("model {} version {} {}; it is out of service for {}", model.name(),
                    model.version(), why, absl::FormatDuration(quarantine_.pause()));
    }
    absl::MutexLock lock(&mutex_);
    Look();
  });
  state_.Observe([this] {
    absl::MutexLock lock(&mutex_);
    Look();
  });
  thread_ = std::thread([this] { Run(); });
}

Availability::~Availability() {
  state_.Observe(nullptr);
  models_.Observe(nullptr);
  quarantine_.Observe(nullptr);
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    woken_ = true;
  }
  thread_.join();
}

void Availability::Observe(Observer observer) {
  absl::MutexLock lock(&mutex_);
  observer_ = std::move(observer);
  told_.clear();
  Look();
}

void Availability::Look() {
  const absl::Time now = SteadyNow();
  std::map<std::string, bool> able;
  absl::Time next = absl::InfiniteFuture();
  bool any = false;
  for (const auto& [model, version] : versions_) {
    const absl::Time back =
        version.empty() ? absl::InfiniteFuture() : quarantine_.BackAt(model, version);
    able[model] = back <= now;
    any = any || back <= now;
    next = back <= now ? next : std::min(next, back);
  }
  state_.SetAble(any);
  const Health health = state_.health();
  for (const auto& [model, is_able] : able) {
    Tell(model, health.ModelReady(is_able));
  }
  Tell("", health.ready);
  if (next != next_look_) {
    next_look_ = next;
    woken_ = true;
  }
}

void Availability::Tell(const std::string& name, bool ready) {
  if (observer_ == nullptr) {
    return;
  }
  const auto [told, is_new] = told_.try_emplace(name, ready);
  if (is_new || told->second != ready) {
    told->second = ready;
    observer_(name, ready);
  }
}

void Availability::Run() {
  absl::MutexLock lock(&mutex_);
  while (!stop_) {
    if (mutex_.AwaitWithTimeout(absl::Condition(&woken_), next_look_ - SteadyNow())) {
      woken_ = false;
    } else {
      Look();
    }
  }
}

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
