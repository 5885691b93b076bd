// beamwright-server: loads models, serves them over gRPC and HTTP, and drains on SIGTERM. Exit
// codes: 0 after a signal, 1 when it can't serve, 2 for wrong settings, 3 when its models are not
// loaded in --startup-timeout, 4 when it hangs after a signal.
#include <grpc/support/log.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "include/beamwright/engine.h"
#include "ops/base/cpu.h"
#include "ops/base/file.h"
#include "ops/base/memory.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/base/threads.h"
#include "server/access/guard.h"
#include "server/build_info.h"
#include "server/http/admin.h"
#include "server/http/listener.h"
#include "server/http/probes.h"
#include "server/http/request_parts.h"
#include "server/http/rest.h"
#include "server/http/transcription.h"
#include "server/listeners.h"
#include "server/oip/service.h"
#include "server/rpc/otlp_exporter.h"
#include "server/rpc/server.h"
#include "server/serving/core.h"
#include "server/serving/flags.h"
#include "server/serving/gauges.h"
#include "server/serving/logging.h"
#include "server/serving/metrics.h"
#include "server/serving/model_registry.h"
#include "server/serving/process_limits.h"
#include "server/serving/server_threads.h"
#include "server/serving/tracer.h"
#include "server/websocket/listener.h"

namespace beamwright {
namespace {

using serving::Phase;

constexpr size_t kFewestKeyBytes = 32;  // of --state-key-file
constexpr absl::Duration kShortestPoll = absl::Milliseconds(10);
// While calls are waited for: how often those are dropped whose client has not read an answer for
// so long.
constexpr absl::Duration kBetweenDrops = absl::Milliseconds(500);
constexpr absl::Duration kUnread = absl::Seconds(5);
constexpr absl::Duration kLastAnswers = absl::Seconds(1);
// Of the drain timeout, for what follows when work has ended: a seventh, and this at most.
constexpr absl::Duration kClosing = absl::Seconds(4);
constexpr absl::Duration kLastLines = absl::Seconds(1);  // of the log, until its reader has them
// Kept for operators where the process has no file left.
constexpr int kAdminSpareFiles = 4;
constexpr absl::Duration kQuiet = absl::Milliseconds(500);
constexpr absl::Duration kLongestQuiet = absl::Seconds(2);
// From the drain timeout to the end of the process, whatever hangs; more than the three above and
// what closing takes.
constexpr absl::Duration kLongestEnd = absl::Seconds(5);

// For those who look for something alone: gRPC has an "error" for each client that misbehaves, with
// what it sent. What matters of its troubles comes back as a status, and is logged as ours. Only a
// failed assertion is followed by SIGABRT, as where gRPC cannot start a thread.
void LogFromGrpc(gpr_log_func_args* entry) {
  if (absl::StartsWith(entry->message, "assertion failed")) {
    spdlog::critical("gRPC: {} ({}:{})", entry->message, entry->file, entry->line);
    serving::FlushLog(kLastLines);
  } else {
    spdlog::debug("gRPC: {}", entry->message);
  }
}

// The loading thread cannot be stopped before a model is done, so it is not asked to.
[[noreturn]] void GiveUp(const serving::Flags& flags) {
  constexpr int kNotStarted = 3;
  spdlog::critical("not started in {} (startup-timeout): models are still loading",
                   absl::FormatDuration(flags.startup_timeout));
  serving::FlushLog(kLastLines);
  std::_Exit(kNotStarted);
}

// Says 'not ready' everywhere and gives balancers time to notice.
void Leave(const serving::Flags& flags, const serving::StopSignals& signals,
           serving::ServingState& state) {
  state.Enter(Phase::kLeaving);
  // Who interrupts at a terminal is not a balancer that has to find out.
  if (!signals.interrupted() && flags.drain_delay > absl::ZeroDuration()) {
    spdlog::info("not ready any more; calls are taken for {} yet",
                 absl::FormatDuration(flags.drain_delay));
    absl::SleepFor(flags.drain_delay);
  }
}

// Answers what was accepted and closes the gRPC listener.
void Drain(const serving::Flags& flags, serving::Core& core, rpc::Server& server,
           websocket::Listener* streams) {
  engine::Engine& engine = core.engine();
  serving::ServingState& state = core.state();
  state.Enter(Phase::kRefusing);
  spdlog::info("draining: no new requests; a second signal stops at once");
  server.EndStreams();
  if (streams != nullptr) {
    streams->Leave();
  }
  const absl::Duration timeout = flags.drain_timeout - std::min(kClosing, flags.drain_timeout / 7);
  const absl::Time begin = SteadyNow();
  const absl::Time end = begin + timeout;
  bool is_answered = state.WaitUntilAnswered(std::min(kBetweenDrops, timeout));
  while (!is_answered && SteadyNow() < end) {
    server.DropUnread(kUnread);
    if (SteadyNow() - begin >= serving::StreamWatch::kMostIdleInDrain) {
      core.streams().LookInDrain(SteadyNow());
    }
    is_answered = state.WaitUntilAnswered(std::min(kBetweenDrops, end - SteadyNow()));
  }
  if (!is_answered) {
    const engine::Engine::Load load = engine.load();
    spdlog::warn("{} requests run and {} wait after {}; they end now", load.running, load.waiting,
                 absl::FormatDuration(flags.drain_timeout));
    // What is left even then, because a turn takes so long, is cancelled when gRPC closes.
    core.models().EndWaiting();
    core.long_work().End(serving::ShuttingDown());
    engine.End(serving::ShuttingDown());
    if (!state.WaitUntilAnswered(kBetweenDrops)) {
      server.DropUnread(kBetweenDrops);
      state.WaitUntilAnswered(kLastAnswers - kBetweenDrops);
    }
  }
  // gRPC cancels a call that arrives while it closes, and a client does not repeat what is
  // cancelled. So clients that call on wait for their Unavailable until it has closed: who waits
  // makes no further call.
  state.HoldRefusals();
  state.WaitUntilQuiet(kQuiet, kLongestQuiet);
  state.Enter(Phase::kEnding);
  server.Stop([&state] { state.ReleaseRefusals(); });
}

// Everything that runs, from the load of the models to the last answer.
absl::Status Serve(const serving::Flags& flags, serving::StopSignals& signals) {
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<access::Guard> guard,
                      access::Guard::Make(flags.guard, ApiAddresses(flags)));
  serving::ServingState state;
  serving::Metrics metrics(flags.buckets);
  const serving::ProcessGauges process(state);
  metrics.Add(&process);
  const http::Probes probes(state, metrics);
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<http::ProbeListener> probe_listener,
                      ListenForProbes(flags, probes));

  serving::StartupWatch startup(flags.startup_timeout, [&flags] { GiveUp(flags); });
  serving::LoadOptions load_options = flags.load;
  load_options.allow_links.insert(load_options.allow_links.end(), flags.models.repositories.begin(),
                                  flags.models.repositories.end());
  load_options.on_demand = flags.model_control == "on-demand";
  load_options.evicted = [&metrics](const std::string& model) { metrics.CountEviction(model); };
  load_options.stopped = [&signals] { return signals.stopped(); };
  load_options.observer = [&metrics](const std::string& model, bool good, absl::Duration took) {
    metrics.CountLoad(model, good, took);
  };
  serving::ModelRegistry models(flags.models, std::move(load_options));
  engine::EngineOptions engine_options = flags.engine;
  engine_options.observer = &metrics;
  if (!flags.state_key_file.empty()) {
    absl::StatusOr<std::string> key = ReadFile(flags.state_key_file);
    if (!key.ok() || key->size() < kFewestKeyBytes) {
      return key.ok() ? Invalid("--state-key-file: '", flags.state_key_file, "' has ", key->size(),
                                " bytes; at least ", kFewestKeyBytes, " are needed")
                      : Annotate(key.status(), "--state-key-file");
    }
    engine_options.state_key = *std::move(key);
  }
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine,
                      engine::Engine::Start(engine_options));
  const serving::EngineWatch watch([&engine] { return engine->load().stalled; },
                                   flags.liveness_timeout, state);
  // Observes calls, and so is made before the listeners that answer them.
  std::optional<serving::AccessLog> access_log;
  if (flags.access_log_sample > 0) {
    access_log.emplace(flags.access_log_sample);
  }
  std::optional<rpc::OtlpExporter> exporter;
  std::optional<serving::Tracer> tracer;
  if (!flags.otlp_endpoint.empty()) {
    exporter.emplace(flags.otlp_endpoint);
    tracer.emplace(flags.trace_rate, [&exporter](std::vector<serving::Span> spans) {
      exporter->Add(std::move(spans));
    });
  }
  serving::Core core(state, models, *engine, metrics);
  core.load_reporter().Enable(flags.load_reports);
  core.memory().SetLimit(flags.max_held_bytes);
  core.streams().SetIdle(flags.stream_idle_timeout);
  const serving::EngineGauges gauges(*engine, models, core.quarantine());
  metrics.Add(&gauges);
  const serving::MemoryGauges memory(core.memory());
  metrics.Add(&memory);
  const absl::Cleanup forget_gauges = [&] {
    metrics.Remove(&gauges);
    metrics.Remove(&memory);
  };
  if (access_log.has_value()) {
    core.calls().Observe(&*access_log);
  }
  if (tracer.has_value()) {
    core.calls().Observe(&*tracer);
  }
  oip::Service inference(core, flags.model_control == "explicit");
  oip::Service control(core, /*model_control=*/true);

  // All ports are bound before models load: a clash is known at once, and clients that are early
  // get UNAVAILABLE, 'loading'.
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<rpc::Server> server,
                      ListenForCalls(flags, *guard, inference));
  const serving::ConnectionGauges connections([&server] { return server->CountConnections(); },
                                              [&server] { return server->CountCutOff(); },
                                              flags.grpc_max_connections);
  metrics.Add(&connections);
  const absl::Cleanup forget_connections = [&] { metrics.Remove(&connections); };
  BW_ASSIGN_OR_RETURN(const http::Cors cors, CorsOf(flags));
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<websocket::Listener> stream_listener,
                      ListenForStreams(flags, core, *guard, cors));
  const serving::WebSocketGauges streams(
      [&stream_listener] { return stream_listener->num_connections(); },
      MaxWebSocketConnections(flags));
  const absl::Cleanup forget_streams = [&] { metrics.Remove(&streams); };
  if (stream_listener != nullptr) {
    metrics.Add(&streams);
  }
  const int stream_port = stream_listener == nullptr ? 0 : stream_listener->port();
  const http::Rest rest({flags.http_timeout, flags.page, {server->port(), stream_port}},
                        guard->api(), inference, probes);
  const http::Rest operators({flags.http_timeout}, guard->admin(), control, probes);
  const http::Admin admin(guard->admin(), *engine, operators);
  http::ListenerOptions http_options;
  http_options.address = flags.http_address;
  http_options.threads = flags.http_threads;
  http_options.max_body_bytes = static_cast<size_t>(flags.http_max_body_bytes);
  http_options.body_limits = {
      {http::kTranscriptions, std::max(http_options.max_body_bytes, http::kMaxTranscriptionBytes)}};
  http_options.tls = guard->tls();
  http_options.refused = [&rest](const http::HttpRequest& request, const absl::Status& why) {
    rest.CountRefusal(request, why);
  };
  http_options.takes_options = cors.enabled();
  http_options.cors = &cors;
  http_options.bounds = ConnectionBoundsOfFiles();
  http_options.bodies = &core.bodies();
  http_options.memory = &core.memory();
  http_options.at_once = [&probes, &cors](const http::HttpRequest& request) {
    std::optional<http::HttpReply> reply = probes.HandleAtOnce(request);
    if (reply.has_value()) {
      cors.AddHeaders(request, *reply);
    }
    return reply;
  };
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<http::Listener> http_listener,
                      Listen("http-address", "HTTP", http_options,
                             [&rest, &cors](const http::HttpRequest& request) {
                               if (request.method == "OPTIONS") {
                                 return cors.Preflight(request);
                               }
                               http::HttpReply reply = rest.Handle(request);
                               cors.AddHeaders(request, reply);
                               return reply;
                             }));
  http::ListenerOptions admin_options;
  admin_options.address = flags.admin_address;
  admin_options.max_body_bytes = http_options.max_body_bytes;
  admin_options.refused = http_options.refused;
  admin_options.cors = &cors;
  admin_options.has_local_name = access::IsLocal(flags.admin_address);
  admin_options.bounds = http_options.bounds;
  admin_options.bodies = http_options.bodies;
  admin_options.memory = http_options.memory;
  admin_options.spare_files = kAdminSpareFiles;
  admin_options.thread_name = "bw-admin";
  admin_options.at_once = [&probes](const http::HttpRequest& request) {
    return probes.HandleAtOnce(request);
  };
  BW_ASSIGN_OR_RETURN(
      const std::unique_ptr<http::Listener> admin_listener,
      Listen("admin-address", "for operators", admin_options,
             [&admin](const http::HttpRequest& request) { return admin.Handle(request); }));
  BW_RETURN_IF_ERROR(models.LoadAll([&signals] { return signals.stopped(); }));
  state.Enter(Phase::kServing);
  startup.Started();
  std::map<std::string, int> ports = {{"grpc", server->port()}};
  const auto add_port = [&ports](const char* name, const auto& listener) {
    if (listener != nullptr) {
      ports[name] = listener->port();
    }
  };
  add_port("http", http_listener);
  add_port("metrics", probe_listener);
  add_port("admin", admin_listener);
  add_port("websocket", stream_listener);
  BW_RETURN_IF_ERROR(WritePorts(flags.ports_file, ports));
  spdlog::info("ready on {}", server->address());
  LogWhoMayCall(flags);

  std::optional<PeriodicThread> poller;
  if (flags.model_control == "poll" || models.on_demand()) {
    poller.emplace("bw-poll", std::max(flags.repository_poll_interval, kShortestPoll),
                   [&models] { models.Poll(); });
  }
  signals.OnReload([&guard, &poller] {
    guard->Refresh();
    if (poller.has_value()) {
      poller->Hurry();
    }
  });
  signals.Wait();
  signals.OnReload(nullptr);
  Leave(flags, signals, state);
  if (http_listener != nullptr) {
    http_listener->Leave();
  }
  Drain(flags, core, *server, stream_listener.get());
  if (stream_listener != nullptr) {
    stream_listener->Stop();
  }
  if (http_listener != nullptr) {
    http_listener->Stop();
  }
  spdlog::info("stopped; calls answered: {}", metrics.CallsByCode());
  return absl::OkStatus();
}

// Looks at what can be known without loading anything.
absl::Status CheckConfig(const serving::Flags& flags) {
  BW_RETURN_IF_ERROR(access::Guard::Make(flags.guard, ApiAddresses(flags)).status());
  BW_RETURN_IF_ERROR(CorsOf(flags).status());
  BW_ASSIGN_OR_RETURN(const std::vector<bundle::ModelFolder> folders,
                      serving::FindFolders(flags.models));
  for (const bundle::ModelFolder& folder : folders) {
    BW_RETURN_IF_ERROR(folder.listed);
    std::printf("model '%s': version %s\n", folder.name.c_str(),
                folder.versions[0].version.c_str());
  }
  return folders.empty() ? absl::NotFoundError("there is no model to serve") : absl::OkStatus();
}

// Says what the number of compute threads follows from, where that is not the machine's number of
// cores: hyperthreads, memory nodes, a quota.
void DescribeCpus(const serving::ParsedFlags& parsed) {
  const std::vector<int> cpus = AffinityCpus();
  const CpuTopology topology = ReadCpuTopology(cpus);
  const double quota = ReadCgroupLimits().cpus;
  const std::string& node = parsed.flags.numa;
  if (topology.nodes > 1 || topology.cores < static_cast<int>(cpus.size()) || quota > 0 ||
      node != "off") {
    spdlog::info("{} CPUs on {} cores of {} memory nodes, {}; --numa {}: docs/performance.md",
                 cpus.size(), topology.cores, topology.nodes,
                 quota > 0 ? absl::StrCat("a quota of ", quota, " CPUs") : "no quota", node);
  }
  if (!parsed.memory_bound.ok()) {
    spdlog::warn("--numa {}: memory that the node cannot give may come from another: {}", node,
                 std::string(parsed.memory_bound.message()));
  }
}

// Those that there are at least: the engine's, HTTP's, gRPC's and one for each task.
absl::Status CheckThreads(const serving::Flags& flags) {
  constexpr int kOthers = 48;
  const int engine = flags.engine.num_threads > 0 ? flags.engine.num_threads : UsableCpus();
  const int http = flags.http_address == "none" ? 0 : flags.http_threads;
  return serving::CheckThreads(engine + http + kOthers);
}

// By default malloc comes to keep up to 64 MiB of free memory at the end of each arena, of which
// there are 8 for each core, and malloc_trim returns none of it but the main arena's. A block of
// kMapped and more is a mapping, which goes back when it is freed; steps allocate none.
void KeepLittleFreeMemory() {
  constexpr int kKeptInAnArena = 2 << 20;
  constexpr int kMapped = 4 << 20;
  mallopt(M_TRIM_THRESHOLD, kKeptInAnArena);
  mallopt(M_MMAP_THRESHOLD, kMapped);
}

int Main(int argc, char** argv) {
  KeepLittleFreeMemory();
  SkipDeadlockSearch();
  UseShortTimeSlices();  // but for the engine's threads
  const serving::ParsedFlags parsed = serving::ParseFlags(argc, argv);
  if (parsed.version_json) {
    std::fputs(BuildInfoJson().c_str(), stdout);
  }
  if (parsed.exit_code.has_value()) {
    return *parsed.exit_code;
  }
  // Before there is any other thread: the check takes all address space for a moment, and Abseil's
  // locks end a process by SIGABRT where there is none.
  const absl::Status can_start =
      parsed.flags.check_config ? absl::OkStatus() : CheckThreads(parsed.flags);
  serving::ExplainTermination();  // the log has a thread
  serving::SetUpLogging(parsed.flags.log_level, parsed.flags.log_format);
  gpr_set_log_function(LogFromGrpc);
  if (parsed.flags.check_config) {
    const absl::Status status = CheckConfig(parsed.flags);
    if (!status.ok()) {
      spdlog::error("{}", std::string(status.message()));
    }
    return status.ok() ? 0 : 2;
  }
  DescribeCpus(parsed);
  serving::RaiseFileLimit();
  if (!can_start.ok()) {
    spdlog::error("{}", std::string(can_start.message()));
    return 1;
  }
  serving::StopSignals& signals = serving::StopSignals::Install();
  signals.EndWithin(parsed.flags.drain_delay + parsed.flags.drain_timeout + kLongestEnd);
  const absl::Status status = Serve(parsed.flags, signals);
  if (!status.ok() && !(absl::IsCancelled(status) && signals.stopped())) {
    spdlog::error("{}", std::string(status.message()));
    for (const absl::Status& other : OtherConflicts(parsed.flags, status)) {
      spdlog::error("{}", std::string(other.message()));
    }
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace beamwright

int main(int argc, char** argv) {
  const int exit_code = beamwright::Main(argc, argv);
  beamwright::serving::FlushLog(beamwright::kLastLines);
  return exit_code;
}
