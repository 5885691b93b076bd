// The server's flags: argv, the environment and the file of --config go in; Flags come out, or an
// exit code.
//
// 1. AddAll declares every flag once, by group (AddListeners, AddSecurity, AddEngine, AddModels,
//    AddLifecycle, AddObservability), with its help text, its range and the field of Flags that it
//    sets. The helpers AddInt, AddTime, AddAddress, ... hold one kind of value each, so that all
//    times, for example, are read and refused alike.
// 2. Settings (settings.h) reads the sources: the command line goes before the environment, and
//    that before the file.
// 3. ParseFlags turns what CLI11 throws into exit codes: 0 for --help, --version and
//    --print-config, 2 for wrong flags.
// 4. Then settings that follow from several flags or from the machine: ports from --port-base
//    (UsePortBase), the memory node of --numa (Bind, before any thread starts), memory limits as
//    shares of the usable memory, and checks of times and streams.
//
// A new flag is one line here and one field in flags.h.
#include "server/serving/flags.h"

#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/decode_model.h"
#include "engine/search/options.h"
#include "ops/base/cpu.h"
#include "ops/base/memory.h"
#include "ops/base/names.h"
#include "ops/base/status.h"
#include "server/serving/settings.h"

namespace beamwright::serving {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kMaxRows = 65536;
constexpr int kMaxQueue = 1'000'000;
constexpr int kMaxMessageBytes = 1 << 30;
constexpr char kAsTheModelSays[] = "model";

// "30", "30s", "1m30s", "500ms".
bool ParseTimeout(const std::string& text, absl::Duration& timeout) {
  double seconds = 0;
  const bool bare = absl::SimpleAtod(text, &seconds);
  if (bare) {
    timeout = absl::Seconds(seconds);
  }
  return (bare || absl::ParseDuration(text, &timeout)) && timeout >= absl::ZeroDuration() &&
         timeout <= absl::Hours(24);
}

std::string CheckTimeout(const std::string& text) {
  absl::Duration timeout;
  return ParseTimeout(text, timeout)
             ? ""
             : absl::StrCat("'", text, "' is not a time from 0 to 24h; write 30s, 2m or 500ms");
}

std::string CheckBuckets(const std::string& text) {
  return std::string(Buckets().Set(text).message());
}

// Forms of an address other than HOST:PORT.
struct AddressForms {
  bool none = false;
  bool unix_socket = false;
};

std::string CheckAddress(const std::string& text, const AddressForms& forms) {
  const bool is_unix =
      (absl::StartsWith(text, "unix:") || absl::StartsWith(text, "unix-abstract:")) &&
      text.back() != ':';
  if ((forms.none && text == "none") || (forms.unix_socket && is_unix) ||
      ParseHostPort(text).ok()) {
    return "";
  }
  return absl::StrCat(
      "'", text, "' is not a valid address to listen on; write HOST:PORT (0 to 65535)",
      forms.unix_socket ? ", unix:PATH or unix-abstract:NAME" : "", forms.none ? ", or none" : "");
}

// An empty address: no collector.
std::string CheckCollector(const std::string& text) {
  const absl::StatusOr<HostPort> place = ParseHostPort(text);
  return text.empty() || (place.ok() && !place->host.empty() && place->port > 0)
             ? ""
             : absl::StrCat("'", text,
                            "' is not a valid collector; write HOST:PORT, without http://");
}

// The ports file is replaced, which would break a device, a pipe or a link.
std::string CheckPortsFile(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)
             ? ""
             : absl::StrCat("'", path, "' is not a regular file, so it is not replaced");
}

std::string CheckNotEmpty(const std::string& text) { return text.empty() ? "is empty" : ""; }

// Each occurrence of the flag takes one value; a second word after it is an error.
void AddPaths(CLI::App& app, const char* flag, const char* help, std::vector<std::string>& paths) {
  app.add_option(flag, paths, help)
      ->type_name("DIR")
      ->delimiter(':')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CheckNotEmpty);
}

void AddInt(CLI::App& app, const char* flag, const char* help, int minimum, int maximum,
            int& value) {
  app.add_option(flag, value, help)->check(CLI::Range(minimum, maximum))->capture_default_str();
}

// CLI::Range has no objection to NaN.
void AddReal(CLI::App& app, const char* flag, const char* help, const char* type, double maximum,
             double& value) {
  const auto check = [maximum](const std::string& text) {
    double number = 0;
    return absl::SimpleAtod(text, &number) && number >= 0 && number <= maximum
               ? ""
               : absl::StrCat("'", text, "' is not a number from 0 to ", maximum);
  };
  app.add_option(flag, value, help)->type_name(type)->check(check)->capture_default_str();
}

void AddBytes(CLI::App& app, const char* flag, const char* help, int64_t& value) {
  app.add_option(flag, value, help)
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 50))
      ->capture_default_str();
}

void AddTime(CLI::App& app, const char* flag, const char* help, absl::Duration& value) {
  app.add_option(
         flag, [&value](const CLI::results_t& texts) { return ParseTimeout(texts[0], value); },
         help)
      ->type_name("TIME")
      ->check(CheckTimeout)
      ->default_str(absl::FormatDuration(value));
}

void AddAddress(CLI::App& app, const char* flag, const char* help, std::string& value,
                AddressForms forms) {
  app.add_option(flag, value, help)
      ->type_name("HOST:PORT")
      ->check([forms](const std::string& text) { return CheckAddress(text, forms); })
      ->capture_default_str();
}

void AddSwitch(CLI::App& app, const char* flag, const char* help, bool& value) {
  app.add_option(flag, value, help)->type_name("true|false")->capture_default_str();
}

void AddFile(CLI::App& app, const char* flag, const char* help, std::string& value) {
  app.add_option(flag, value, help)->type_name("FILE");
}

void AddListeners(CLI::App& app, Flags& flags) {
  AddAddress(app, "--grpc-address", "Where gRPC listens; port 0 takes a free one",
             flags.grpc_address, {false, true});
  AddAddress(app, "--http-address", "Where the HTTP API listens; 'none' turns it off",
             flags.http_address, {true, false});
  AddAddress(app, "--websocket-address",
             "Where streams of sound come in over WebSocket, as sherpa-onnx's clients send them; "
             "'none' turns it off",
             flags.websocket_address, {true, false});
  AddAddress(app, "--metrics-address", "Where probes and /metrics listen; 'none' turns them off",
             flags.metrics_address, {true, false});
  AddAddress(app, "--admin-address",
             "Where operators load models and look at the scheduler; 'none' turns it off",
             flags.admin_address, {true, false});
  AddInt(app, "--port-base",
         "Port of HTTP, where --http-address does not say it; gRPC, metrics and operators have the "
         "three after it",
         1, 65532, flags.port_base);
  AddInt(app, "--grpc-max-receive-bytes", "Largest gRPC request", 1, kMaxMessageBytes,
         flags.grpc_max_receive_bytes);
  AddInt(app, "--grpc-max-concurrent-streams", "Most calls of a gRPC connection at once", 1,
         1'000'000, flags.grpc_max_concurrent_streams);
  AddInt(app, "--grpc-max-connections", "Most gRPC connections; further ones are closed at once", 1,
         1'000'000, flags.grpc_max_connections);
  AddInt(app, "--grpc-max-connections-per-client",
         "Most gRPC connections from one address; 0: no limit but that of all", 0, 1'000'000,
         flags.grpc_max_connections_per_client);
  AddInt(app, "--grpc-max-metadata-bytes", "Headers of a gRPC call, together", 1024, 1 << 20,
         flags.grpc_max_metadata_bytes);
  AddInt(app, "--http-max-body-bytes", "Largest HTTP request body; transcriptions: at least 26 MiB",
         1, kMaxMessageBytes, flags.http_max_body_bytes);
  AddInt(app, "--http-threads", "HTTP requests that are read or answered at once", 1, kMaxThreads,
         flags.http_threads);
  AddInt(app, "--websocket-max-connections",
         "Most WebSocket connections; further ones are refused at once", 1, 1'000'000,
         flags.websocket_max_connections);
  app.add_option("--websocket-model", flags.websocket_model,
                 "Model for WebSocket clients that name none; by default the only one that hears "
                 "sound")
      ->type_name("NAME");
  AddTime(app, "--http-timeout", "Time for an HTTP request that names none", flags.http_timeout);
  app.add_option("--http-cors-origins", flags.http_cors_origins,
                 "Origins whose pages may call the HTTP API from a browser, such as "
                 "https://app.example.org, with commas between")
      ->delimiter(',')
      ->type_name("ORIGINS");
  AddSwitch(app, "--page", "Serve the page for browsers at / of the HTTP API", flags.page);
  app.add_option("--ports-file", flags.ports_file,
                 "File to write the ports to when serving: a line 'grpc 8001' for each listener")
      ->type_name("FILE")
      ->check(CheckPortsFile);
}

void AddSecurity(CLI::App& app, Flags& flags) {
  access::GuardOptions& guard = flags.guard;
  AddFile(app, "--tls-cert", "Certificate chain (PEM) of the gRPC and HTTP listeners",
          guard.tls.cert);
  AddFile(app, "--tls-key", "Its private key (PEM)", guard.tls.key);
  AddFile(app, "--tls-client-ca",
          "Certificates (PEM) that sign those of clients; clients then need one",
          guard.tls.client_ca);
  AddFile(app, "--auth-token-file", "Who may call: hashed bearer tokens, certificates and roles",
          guard.token_file);
  AddFile(app, "--tenant-file", "Shares and limits of tenants", guard.tenant_file);
  AddTime(app, "--security-refresh",
          "How often the files of TLS, tokens and tenants are read again", guard.refresh);
  AddSwitch(app, "--auth-in-clear", "Take tokens on listeners without TLS, as behind a mesh",
            guard.tokens_in_clear);
  app.add_option(
         "--reflection", flags.reflection,
         "Describe the gRPC services to callers that have any role; by default unless there "
         "is a token file")
      ->type_name("true|false");
}

// One precision for all models, or the precision of each bundle.
void AddPrecision(CLI::App& app, std::optional<v1::Precision>& precision) {
  std::vector<std::string> allowed = engine::PrecisionNames();
  allowed.insert(allowed.begin(), kAsTheModelSays);
  app.add_option(
         "--precision",
         [&precision](const CLI::results_t& names) {
           const absl::StatusOr<v1::Precision> parsed = engine::ParsePrecision(names[0]);
           precision = parsed.ok() ? std::optional(*parsed) : std::nullopt;
           return parsed.ok() || names[0] == kAsTheModelSays;
         },
         "Form of the models' weights; 'model': as model.textproto says")
      ->check([](const std::string& name) {
        const absl::StatusOr<v1::Precision> any = engine::ParseAnyPrecision(name);
        return any.ok() ? std::string(engine::CheckAskedPrecision(*any).message()) : std::string();
      })
      ->check(CLI::IsMember(allowed))
      ->default_str(kAsTheModelSays);
}

void AddEngine(CLI::App& app, Flags& flags) {
  AddInt(app, "--threads", "Compute threads; 0: as many as CPU quota and affinity allow", 0,
         kMaxThreads, flags.engine.num_threads);
  app.add_option("--numa", flags.numa,
                 "Memory node whose CPUs and memory alone are used: 'auto' (the one with the most "
                 "CPUs) or its number; 'off': all")
      ->type_name("NODE")
      ->capture_default_str();
  AddInt(app, "--inference-streams",
         "Engine threads that step requests side by side, each with its part of --threads; 0: as "
         "many as there is work for, a single one having all threads",
         0, kMaxThreads, flags.engine.num_streams);
  AddInt(app, "--max-rows",
         "Most hypotheses stepped together; a request takes as many as its beam is wide", 1,
         kMaxRows, flags.engine.max_rows);
  AddInt(app, "--max-beam-size",
         "Largest beam of a request; 0: as each bundle says, whose own limits hold in any case", 0,
         search::kMaxBeamSize, flags.load.compile.max_beam_size);
  AddInt(app, "--max-target-length", "Longest answer that a request may ask for, in tokens", 0,
         search::kMaxLength, flags.load.compile.max_target_length);
  AddInt(app, "--max-source-length", "Longest source that a request may have, in tokens", 0,
         1'000'000, flags.load.compile.max_source_length);
  AddInt(app, "--max-queue", "Most sources waiting; one more is refused with RESOURCE_EXHAUSTED", 1,
         kMaxQueue, flags.engine.max_queue);
  app.add_option("--max-queue-rows", flags.engine.max_queue_rows,
                 "Most hypotheses that waiting sources may ask for together")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--max-queue-bytes", flags.engine.max_queue_bytes,
                 "Most bytes that waiting sources may hold together")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  AddBytes(app, "--max-state-bytes",
           "Most bytes that running sources may hold together: states, history, what their steps "
           "share; 0: a quarter of the memory that the process may use",
           flags.max_state_bytes);
  AddBytes(
      app, "--prefix-cache-bytes",
      "Of --max-state-bytes: what keeps the states of recurrent language models behind prompts, "
      "for prompts that begin alike; 0: none",
      flags.engine.prefix_cache_bytes);
  AddFile(app, "--state-key-file",
          "Key (32 bytes or more) that returned states are signed with; servers with one key take "
          "each other's states; without it a state is taken by the process that made it",
          flags.state_key_file);
  AddBytes(app, "--max-held-bytes",
           "Most bytes that listeners may hold for callers: requests as they are read and parsed, "
           "answers that are not sent; 0: a quarter of the memory that the process may use",
           flags.max_held_bytes);
  app.add_option("--max-encode-positions", flags.engine.max_encode_positions,
                 "Most source positions that are encoded between two steps of what runs")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  AddInt(app, "--quarantine-failures",
         "Failures in a row by which a model goes out of service for a while; 0: never", 0,
         1'000'000, flags.engine.quarantine.failures);
  AddTime(app, "--quarantine-pause", "How long, until it may try again",
          flags.engine.quarantine.pause);
  AddTime(app, "--slow-step",
          "A model whose encoder run or step takes longer gets a separate thread; others go on",
          flags.engine.slow_step);
  AddTime(app, "--step-timeout",
          "One that takes longer is interrupted; the model is then out of service for a while",
          flags.engine.step_timeout);
  AddSwitch(app, "--forecast-deadlines",
            "Refuse at once what, at the recent speed, would miss its deadline",
            flags.engine.forecast_deadlines);
  AddPrecision(app, flags.load.compile.precision);
}

void AddModels(CLI::App& app, Flags& flags) {
  AddReal(app, "--token-tables",
          "Most memory for tables of what depends on a token alone, in multiples of a "
          "decoder's weights; 0: none",
          "SHARE", 1000, flags.load.compile.token_table_share);
}

void AddLifecycle(CLI::App& app, Flags& flags) {
  AddTime(
      app, "--stream-idle-timeout",
      "End streams (Recognize, WebSocket, sequences of Open Inference) of which nothing has come\n"
      "for so long; 0: never",
      flags.stream_idle_timeout);
  AddTime(app, "--drain-delay",
          "After SIGTERM: how long calls are still taken while probes say 'not ready'",
          flags.drain_delay);
  AddTime(app, "--drain-timeout", "After that: how long running requests may take to finish",
          flags.drain_timeout);
  AddTime(app, "--startup-timeout",
          "End with exit code 3 if models are not loaded by then; 0: wait for them",
          flags.startup_timeout);
  AddTime(app, "--load-timeout",
          "Give a version up whose graphs are still run at load (self-check, golden requests,\n"
          "warm-up) after so long",
          flags.load.timeout);
  AddTime(app, "--liveness-timeout",
          "/livez fails when the engine has work and has not come round for so long",
          flags.liveness_timeout);
  app.add_option("--log-level", flags.log_level, "Least severe messages to log")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
}

void AddObservability(CLI::App& app, Flags& flags) {
  app.add_option("--log-format", flags.log_format, "Lines of text, or one JSON object a line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  AddInt(app, "--access-log-sample", "Log one call in N; 1: all, 0: none", 0, 1'000'000'000,
         flags.access_log_sample);
  app.add_option("--otlp-endpoint", flags.otlp_endpoint,
                 "OpenTelemetry collector that traces are sent to, over gRPC in clear")
      ->type_name("HOST:PORT")
      ->check(CheckCollector);
  AddReal(app, "--trace-rate",
          "Share of the calls that are traced of those whose client says nothing of it", "SHARE", 1,
          flags.trace_rate);
  app.add_option("--load-reports", flags.load_reports,
                 "Report the load to balancers with every gRPC answer (ORCA)")
      ->type_name("BOOL")
      ->capture_default_str();
  app.add_option("--metrics-buckets", flags.metrics_buckets,
                 "Bounds of a histogram of /metrics instead of the default; may be repeated")
      ->type_name("NAME=B1,B2,...")
      ->delimiter(';')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CheckBuckets);
}

void AddAll(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", std::string("beamwright-server " BEAMWRIGHT_VERSION));
  app.add_flag("--json", flags.json,
               "With --version: commit, compiler, libraries and CPU as well, as JSON");
  AddPaths(app, "--model-repository", "Folder of models, <model>/<version>/; may be repeated",
           flags.models.repositories);
  AddPaths(app, "--model-path",
           "Folder of one model (versions in it) or of one bundle; may be repeated",
           flags.models.models);
  AddPaths(app, "--allow-links",
           "Folder that links of models' files may lead into, besides the model's own folder and\n"
           "the repositories; may be repeated",
           flags.load.allow_links);
  app.add_option(
         "--model-control", flags.model_control,
         "What changes the models after the start: 'explicit' clients (RepositoryModelLoad),\n"
         "'poll' the folders, 'on-demand' as 'poll', and a model is loaded by the first call that\n"
         "needs it and leaves when others need its memory (--max-model-bytes), 'none' nothing")
      ->check(CLI::IsMember({"none", "explicit", "poll", "on-demand"}))
      ->capture_default_str();
  AddTime(app, "--repository-poll-interval", "How often 'poll' looks at the model folders",
          flags.repository_poll_interval);
  AddBytes(app, "--max-model-bytes",
           "Most bytes of model files in memory, all versions together; 0: what the machine\n"
           "and the cgroup have, of 'on-demand' a third of that",
           flags.load.max_model_bytes);
  AddInt(app, "--golden-requests",
         "Most requests of a bundle's golden.jsonl that are replayed at load", 0, 1'000'000,
         flags.load.golden_requests);
  AddSwitch(
      app, "--warm-up",
      "Before a version serves, decode its warmup.jsonl and made-up sources of all batch sizes",
      flags.warm_up);
  AddListeners(app, flags);
  AddSecurity(app, flags);
  AddEngine(app, flags);
  AddModels(app, flags);
  AddLifecycle(app, flags);
  AddObservability(app, flags);
  app.add_flag("--check-config", flags.check_config,
               "Check settings and model folders, load nothing, and end");
  app.add_flag("--print-config", flags.print_config,
               "Print all settings and where they come from, as a file for --config, and end");
  app.footer(
      "Each flag may also be an environment variable (--max-rows: BEAMWRIGHT_MAX_ROWS) or a line\n"
      "of the file that --config names (max-rows = 512). The command line goes first, then the\n"
      "environment, then the file.\n"
      "Examples:\n"
      "  beamwright-server --model-path models/g2p-en\n"
      "  beamwright-server --model-repository models --port-base 9000 --http-address 0.0.0.0:80");
}

int Wrong(const std::string& what) {
  std::fprintf(stderr, "beamwright-server: %s\nbeamwright-server --help lists all flags.\n",
               what.c_str());
  return 2;
}

// What is wrong with arguments that are no flags of `app`.
std::string OfUnknownArguments(const CLI::App& app) {
  std::vector<std::string> unknown = app.remaining();
  const auto is_flag = [](const std::string& argument) { return absl::StartsWith(argument, "-"); };
  const auto values = std::stable_partition(unknown.begin(), unknown.end(), is_flag);
  return values == unknown.begin()
             ? absl::StrCat("'", unknown[0], "' is no flag")
             : absl::StrCat("there is no flag ", absl::StrJoin(unknown.begin(), values, ", "),
                            FlagSuggestions(app));
}

// Moves the listeners whose address no setting has to --port-base and the ports after it, and shows
// these addresses as the defaults of their options.
void UsePortBase(CLI::App& app, Flags& flags) {
  const std::pair<const char*, std::string&> in_order[] = {
      {"--http-address", flags.http_address},
      {"--grpc-address", flags.grpc_address},
      {"--metrics-address", flags.metrics_address},
      {"--admin-address", flags.admin_address}};
  int port = flags.port_base;
  for (const auto& [flag, address] : in_order) {
    CLI::Option* const option = app.get_option(flag);
    if (option->count() == 0) {
      address = WithPort(address, port);
      option->default_str(address);
    }
    ++port;
  }
}

std::string CheckStreams(const engine::EngineOptions& options) {
  const int threads = options.num_threads > 0 ? options.num_threads : UsableCpus();
  return options.num_streams <= threads
             ? ""
             : absl::StrCat("--inference-streams: ", options.num_streams,
                            " streams have less than a thread each; --threads ",
                            options.num_threads > 0 ? "says " : "has all CPUs, ", threads);
}

// Binds the process to the CPUs and the memory of the node of --numa.
absl::Status Bind(const Flags& flags, absl::Status& memory_bound) {
  if (flags.numa == "off") {
    return absl::OkStatus();
  }
  BW_ASSIGN_OR_RETURN(const MemoryNode node,
                      ChooseMemoryNode(ReadMemoryNodes(), AffinityCpus(), flags.numa));
  BW_RETURN_IF_ERROR(BindToCpus(node.cpus));
  memory_bound = BindToMemoryOf(node.number);
  return absl::OkStatus();
}

std::string CheckTimes(const Flags& flags) {
  const std::pair<const char*, absl::Duration> times[] = {
      {"--slow-step", flags.engine.slow_step},
      {"--step-timeout", flags.engine.step_timeout},
      {"--load-timeout", flags.load.timeout}};
  for (const auto& [name, time] : times) {
    if (time <= absl::ZeroDuration()) {
      return absl::StrCat(name, ": ", absl::FormatDuration(time), " must be positive");
    }
  }
  return "";
}

// Looks at the arguments themselves, since --version ends their parsing.
bool HasJson(int argc, const char* const* argv) {
  return std::find(argv + 1, argv + argc, std::string("--json")) != argv + argc;
}

}  // namespace

ParsedFlags ParseFlags(int argc, const char* const* argv) {
  ParsedFlags parsed;
  // 1. The sources of settings.
  CLI::App app("Beam-search decoding of recurrent sequence models, over gRPC and HTTP.",
               "beamwright-server");
  AddAll(app, parsed.flags);
  Settings settings(app);
  try {
    settings.Parse(argc, argv, [&parsed](CLI::App& trial) { AddAll(trial, parsed.flags); });
  } catch (const CLI::CallForVersion& version) {
    parsed.version_json = HasJson(argc, argv);
    parsed.exit_code = parsed.version_json ? 0 : app.exit(version);
    return parsed;
  } catch (const CLI::Success& success) {
    parsed.exit_code = app.exit(success);  // --help
    return parsed;
  } catch (const CLI::ExtrasError&) {
    parsed.exit_code = Wrong(OfUnknownArguments(app));
    return parsed;
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = Wrong(error.what());
    return parsed;
  }
  // 2. Settings that follow from others.
  UsePortBase(app, parsed.flags);
  if (parsed.flags.json) {
    parsed.exit_code = Wrong("--json: goes with --version alone");
    return parsed;
  }
  if (const absl::Status bound = Bind(parsed.flags, parsed.memory_bound); !bound.ok()) {
    parsed.exit_code = Wrong(absl::StrCat("--numa: ", bound.message()));
    return parsed;
  }
  parsed.flags.load.warm_up_rows = parsed.flags.warm_up ? parsed.flags.engine.max_rows : 0;
  for (const std::string& text : parsed.flags.metrics_buckets) {
    parsed.flags.buckets.Set(text).IgnoreError();  // checked
  }
  // 3. Memory limits that no flag sets: a quarter of the usable memory each.
  const int64_t usable = UsableMemoryBytes();
  if (parsed.flags.max_state_bytes > 0) {
    parsed.flags.engine.max_bytes = parsed.flags.max_state_bytes;
  } else if (usable > 0) {
    parsed.flags.engine.max_bytes = usable / 4;
  }
  if (parsed.flags.max_held_bytes == 0) {
    parsed.flags.max_held_bytes = usable / 4;
  }
  // 4. What the caller is to do: print and end, refuse, or serve.
  if (parsed.flags.print_config) {
    std::fputs(settings.Print().c_str(), stdout);
    parsed.exit_code = 0;
  } else if (parsed.flags.models.repositories.empty() && parsed.flags.models.models.empty()) {
    parsed.exit_code = Wrong("no model: give --model-repository DIR or --model-path DIR");
  } else if (const std::string late = CheckTimes(parsed.flags); !late.empty()) {
    parsed.exit_code = Wrong(late);
  } else if (const std::string fault = CheckStreams(parsed.flags.engine); !fault.empty()) {
    parsed.exit_code = Wrong(fault);
  }
  return parsed;
}

}  // namespace beamwright::serving
