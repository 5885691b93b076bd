// Metrics that are read when Prometheus asks, rather than counted during calls: the state of the
// process (ProcessGauges), the engine's queue and rows and the models (EngineGauges), memory that
// listeners hold (MemoryGauges), and connections (ConnectionGauges, WebSocketGauges). Counters of
// calls are in metrics.cc.
//
// A metric that the system does not have (such as throttling outside of a cgroup) is left out: a 0
// would be read as a measurement.
#include "server/serving/gauges.h"

#include <malloc.h>
#include <sys/resource.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "ops/base/cpu.h"
#include "ops/base/memory.h"
#include "ops/base/steady_time.h"
#include "server/serving/logging.h"

namespace beamwright::serving {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

MetricFamily MakeFamily(MetricType type, std::string name, std::string help) {
  MetricFamily family;
  family.type = type;
  family.name = std::move(name);
  family.help = std::move(help);
  return family;
}

void AddValue(MetricFamily& family, double value, Labels labels = {}) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  metric.gauge.value = value;
  metric.counter.value = value;
}

MetricFamily Gauge(std::string name, std::string help, double value) {
  MetricFamily family = MakeFamily(MetricType::Gauge, std::move(name), std::move(help));
  AddValue(family, value);
  return family;
}

MetricFamily Counter(std::string name, std::string help, double value) {
  MetricFamily family = MakeFamily(MetricType::Counter, std::move(name), std::move(help));
  AddValue(family, value);
  return family;
}

// Bytes that malloc has given out: unlike resident memory, they do not depend on how malloc
// arranges them.
double HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

std::optional<double> OpenFiles() {
  std::error_code error;
  std::filesystem::directory_iterator entries("/proc/self/fd", error);
  double count = 0;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    ++count;
  }
  return error ? std::nullopt : std::optional(count);
}

}  // namespace

ProcessGauges::ProcessGauges(const ServingState& state) : state_(state), started_(absl::Now()) {}

std::vector<MetricFamily> ProcessGauges::Collect() const {
  const Phase phase = state_.phase();
  std::vector<MetricFamily> families;
  families.push_back(Gauge("beamwright_ready", "1 while the server wants new calls",
                           state_.health().ready ? 1 : 0));
  families.push_back(Gauge("beamwright_draining", "1 from a stop signal on",
                           phase == Phase::kLoading || phase == Phase::kServing ? 0 : 1));
  MetricFamily build = MakeFamily(MetricType::Gauge, "beamwright_build_info", "Always 1");
  AddValue(build, 1,
           {{"version", BEAMWRIGHT_VERSION}, {"instruction_set", std::string(InstructionSet())}});
  families.push_back(std::move(build));
  families.push_back(Gauge("beamwright_cpu_quota_cores",
                           "Threads that the CPU affinity and the cgroup's quota allow",
                           UsableCpus()));
  families.push_back(Gauge("beamwright_memory_limit_bytes",
                           "Memory that the machine and the cgroup allow",
                           static_cast<double>(UsableMemoryBytes())));
  families.push_back(Counter("beamwright_log_lines_dropped_total",
                             "Lines of the log that standard error did not take in time",
                             static_cast<double>(DroppedLogLines())));
  if (const auto seconds = ReadThrottledSeconds()) {
    families.push_back(Counter("beamwright_cpu_throttled_seconds_total",
                               "Time for which the cgroup's quota held threads back", *seconds));
  }
  families.push_back(
      Counter("process_cpu_seconds_total", "CPU time of the process", ProcessCpuSeconds()));
  families.push_back(Gauge("process_start_time_seconds", "Seconds from 1970 to the start",
                           absl::ToDoubleSeconds(started_ - absl::UnixEpoch())));
  families.push_back(
      Gauge("beamwright_heap_bytes", "Memory that was asked for and not returned", HeapBytes()));
  if (const int64_t bytes = ReadProcessMemory().resident_bytes; bytes > 0) {
    families.push_back(
        Gauge("process_resident_memory_bytes", "Resident memory", static_cast<double>(bytes)));
  }
  if (const auto files = OpenFiles()) {
    families.push_back(Gauge("process_open_fds", "Open file descriptors", *files));
  }
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    families.push_back(Gauge("process_max_fds", "Most file descriptors that may be open",
                             static_cast<double>(files.rlim_cur)));
  }
  return families;
}

std::vector<MetricFamily> EngineGauges::Collect() const {
  const engine::Engine::Load load = engine_.load();
  std::vector<MetricFamily> families;
  families.push_back(Gauge("beamwright_requests_running", "Sources being decoded", load.running));
  MetricFamily waiting =
      MakeFamily(MetricType::Gauge, "beamwright_requests_waiting", "Sources that wait");
  for (size_t i = 0; i < load.waiting_by_priority.size(); ++i) {
    AddValue(waiting, load.waiting_by_priority[i],
             {{"priority", std::to_string(engine::kHighestPriority + static_cast<int>(i))}});
  }
  families.push_back(std::move(waiting));
  families.push_back(Gauge("beamwright_requests_waiting_for_memory",
                           "Sources that wait for bytes of max-state-bytes while others pass them",
                           load.memory.waiting));
  families.push_back(Gauge("beamwright_queue_oldest_age_seconds",
                           "How long the first in the queue has waited",
                           absl::ToDoubleSeconds(load.oldest_wait)));
  families.push_back(Gauge("beamwright_beam_rows_active", "Rows of running requests", load.rows));
  families.push_back(
      Gauge("beamwright_beam_rows_capacity", "Most rows that can run", load.max_rows));
  families.push_back(Gauge("beamwright_state_bytes",
                           "Memory that running requests are reckoned to hold",
                           static_cast<double>(load.bytes)));
  families.push_back(Gauge("beamwright_state_bytes_capacity", "Most of it that there may be",
                           static_cast<double>(load.max_bytes)));
  families.push_back(Gauge("beamwright_prefix_cache_bytes", "In use of --prefix-cache-bytes",
                           static_cast<double>(load.prefix_cache_bytes)));
  families.push_back(Counter("beamwright_prefix_tokens_total",
                             "Tokens of target prefixes that were looked up in the prefix cache",
                             static_cast<double>(load.prefix_tokens)));
  families.push_back(Counter("beamwright_prefix_tokens_cached_total",
                             "Those of them that were not read again",
                             static_cast<double>(load.cached_prefix_tokens)));
  families.push_back(
      Gauge("beamwright_inference_threads", "Threads that compute steps", load.num_threads));
  families.push_back(Gauge("beamwright_inference_streams",
                           "Engine threads that share them and step sources side by side",
                           load.num_streams));
  MetricFamily states = MakeFamily(MetricType::Gauge, "beamwright_model_state",
                                   "1 for the state that a version of a model is in");
  MetricFamily in_memory = MakeFamily(MetricType::Gauge, "beamwright_model_in_memory",
                                      "0 for a version that the first call will load");
  for (const ServedModelPtr& model : models_.AllListed()) {
    AddValue(in_memory, model->model() == nullptr ? 0 : 1,
             {{"model", model->name()}, {"version", model->version()}});
  }
  const absl::Time now = SteadyNow();
  for (const v1::ModelSummary& model : models_.List()) {
    const std::string is = !model.ready()                                            ? "unavailable"
                           : quarantine_.BackAt(model.name(), model.version()) > now ? "quarantined"
                                                                                     : "ready";
    for (const char* state : {"ready", "quarantined", "unavailable"}) {
      AddValue(states, is == state ? 1 : 0,
               {{"model", model.name()}, {"version", model.version()}, {"state", state}});
    }
  }
  families.push_back(std::move(states));
  families.push_back(std::move(in_memory));
  MetricFamily encoding =
      MakeFamily(MetricType::Gauge, "beamwright_encoder_batching",
                 "1 if sources of several requests are encoded together, 0 if one at a time");
  MetricFamily stepping =
      MakeFamily(MetricType::Gauge, "beamwright_step_batching",
                 "1 if a step computes the rows of all requests together, 0 if one at a time");
  for (const ModelPtr& model : models_.AllServed()) {
    const Labels labels{{"model", model->name()}, {"version", model->version()}};
    if (model->has_encoder()) {
      AddValue(encoding, model->encodes_together() ? 1 : 0, labels);
    }
    AddValue(stepping, model->steps_apart().empty() ? 1 : 0, labels);
  }
  families.push_back(std::move(encoding));
  families.push_back(std::move(stepping));
  return families;
}

std::vector<MetricFamily> MemoryGauges::Collect() const {
  return {Gauge("beamwright_held_bytes", "Memory that listeners hold for callers",
                static_cast<double>(account_.held_bytes())),
          Gauge("beamwright_held_bytes_capacity", "Most of it that there may be; 0: no limit",
                static_cast<double>(account_.limit_bytes()))};
}

std::vector<MetricFamily> ConnectionGauges::Collect() const {
  return {Gauge("beamwright_grpc_connections", "gRPC connections that are open", count_open_()),
          Counter("beamwright_grpc_connections_cut_off_total",
                  "gRPC connections that were reset because they kept others from being read",
                  static_cast<double>(count_cut_off_())),
          Gauge("beamwright_grpc_connections_capacity", "Most that there may be", capacity_)};
}

std::vector<MetricFamily> WebSocketGauges::Collect() const {
  return {Gauge("beamwright_websocket_connections", "WebSocket connections that are open",
                count_open_()),
          Gauge("beamwright_websocket_connections_capacity", "Most that there may be", capacity_)};
}

}  // namespace beamwright::serving
