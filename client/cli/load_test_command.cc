// beamwright load-test: what a server does with N calls in flight, or with R calls a second, and
// the highest rate at which it keeps a promise.
//
// 1. Loads makes the list of loads from the flags: one for each concurrency or rate. AddCalls finds
//    what is sent: the sources of the command line (ReadSources), or the calls of a mix, which may
//    say when each is due.
// 2. RunLoads runs them one after the other. For each: a new connection, warm-up (Measure), the
//    run, and what the server's metrics have counted meanwhile (MetricsAround). A run in which no
//    call is answered any more ends the list.
// 3. WriteOutputs: JSON, CSV, comparison, histogram, page. Judge decides the exit code: wrong
//    answers always fail, then --fail-if, or any failure without it.
// 4. SearchMaxRate in the place of 2 and 3: FindMaxRate chooses the rates, each trial is printed as
//    it ends.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "client/cli/answers.h"
#include "client/cli/command.h"
#include "client/cli/load_flags.h"
#include "client/cli/load_report.h"
#include "client/cli/sources.h"
#include "client/load/load.h"
#include "client/load/server_facts.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

constexpr size_t kMaxSources = 1'000'000;
constexpr absl::Duration kFactsTimeout = absl::Seconds(5);

absl::StatusOr<std::vector<v1::Source>> ReadSources(const LoadFlags& load) {
  const SourceFlags& flags = load.sources;
  if (flags.words.empty() && flags.file.empty() && flags.features.files.empty() &&
      flags.pictures.empty()) {
    return Invalid(
        "there is nothing to send: name sources, or files of them with --file, --features or "
        "--picture");
  }
  std::optional<FeatureFiles> features;
  if (!flags.features.files.empty() || !flags.features.further.empty()) {
    if (load.protocol != Protocol::kNative) {
      return Invalid(
          "--features and --further-input ask the server for the encoder's type, by --protocol "
          "native; "
          "send tensors to others by --mix, as infer");
    }
    BW_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                        Client::Connect(load.connection.client));
    BW_ASSIGN_OR_RETURN(
        features, FeatureFiles::Open(flags.features, *client, load.load.request.model(),
                                     load.load.request.version(), load.connection.Deadline()));
  }
  BW_ASSIGN_OR_RETURN(auto reader, SourceReader::Open(flags, std::move(features)));
  std::vector<v1::Source> sources;
  BulkSource source;
  while (reader->Next(source)) {
    BW_RETURN_IF_ERROR(Annotate(source.status, absl::StrCat("source ", sources.size() + 1, " \"",
                                                            SourceText(source), "\"")));
    if (sources.size() == kMaxSources) {
      return Invalid("--file: more than ", WithCommas(kMaxSources), " sources");
    }
    sources.push_back(std::move(source.source));
  }
  if (sources.empty()) {
    return Invalid("--file: ", flags.file, " is empty");
  }
  return sources;
}

// The calls, from the sources or the mix.
absl::Status AddCalls(const CLI::App& command, const LoadFlags& flags, LoadOptions& load) {
  const absl::Status no_trace = Invalid("--speed: no line of --mix says when its call is due (at)");
  if (flags.mix.empty() && command.count("--speed") > 0) {
    return no_trace;
  }
  if (flags.mix.empty()) {
    BW_ASSIGN_OR_RETURN(load.sources, ReadSources(flags));
    return absl::OkStatus();
  }
  if (!flags.sources.words.empty() || !flags.sources.file.empty() ||
      !flags.sources.features.files.empty()) {
    return Invalid(
        "--mix has its own sources; leave out those of the arguments, --features and --file");
  }
  auto mix = ReadMix(flags.mix);
  BW_RETURN_IF_ERROR(Annotate(mix.status(), "--mix"));
  const bool infers =
      flags.protocol == Protocol::kInferGrpc || flags.protocol == Protocol::kInferHttp;
  if (mix->has_infer && (!infers || flags.load.stream)) {
    return Invalid("--mix: lines with infer need --protocol infer-grpc or infer-http");
  }
  load.mix = std::move(mix->calls);
  if (!mix->timed) {
    return command.count("--speed") == 0 ? absl::OkStatus() : no_trace;
  }
  if (!flags.rates.empty() || flags.find_max_rate || flags.concurrencies.size() > 1) {
    return Invalid(
        "--mix: a trace says itself when calls are due; leave out --rate, a list of "
        "--concurrency and --find-max-rate");
  }
  load.replay = true;
  if (command.count("--warmup") == 0) {
    load.warmup = absl::ZeroDuration();
  }
  load.duration = std::min(kMaxLoadDuration - absl::Hours(1),
                           load.mix.back().at / load.speed + absl::Seconds(1));
  return absl::OkStatus();
}

// The loads to run, one after the other.
//
// A list of --concurrency or of --rate gives a load for each value; both lists at once would be a
// grid, which is refused. With a rate, or a trace, --concurrency only bounds the calls in flight,
// and is as large as the protocol's client can hold unless it is given.
absl::StatusOr<std::vector<LoadOptions>> Loads(const CLI::App& command, const LoadFlags& flags) {
  LoadOptions load = flags.load;
  if (flags.load.stream && flags.protocol != Protocol::kNative) {
    return Invalid("--stream: streams are for --protocol native");
  }
  BW_RETURN_IF_ERROR(CheckFirstTokens(flags.conditions, flags.slo, flags.load.stream));
  BW_RETURN_IF_ERROR(AddCalls(command, flags, load));
  load.timeout = flags.connection.timeout;
  load.max_calls = flags.max_calls;
  if (flags.good_within > absl::ZeroDuration()) {
    load.good_within = flags.good_within;
  }
  load.stop = &interrupted;
  if (flags.max_calls > 0 && command.count("--duration") == 0 && !load.replay) {
    load.duration = kMaxLoadDuration;
  }
  if (flags.find_max_rate) {
    if (flags.slo.empty() || flags.max_calls > 0 || flags.csv || !flags.compare.empty() ||
        !flags.histogram.empty() || !flags.metrics.empty()) {
      return Invalid(
          "--find-max-rate needs --slo, and has no --requests, --csv, --compare, "
          "--histogram or --metrics");
    }
    return std::vector<LoadOptions>{load};
  }
  const bool http = flags.protocol == Protocol::kRest || flags.protocol == Protocol::kInferHttp;
  std::vector<double> concurrencies = flags.concurrencies;
  if ((!flags.rates.empty() || load.replay) && command.count("--concurrency") == 0) {
    concurrencies = {static_cast<double>(http ? kMaxHttpConcurrency : kMaxConcurrency)};
  }
  if (flags.rates.size() > 1 && concurrencies.size() > 1) {
    return Invalid("--rate and --concurrency both have several values; one of them may");
  }
  std::vector<LoadOptions> loads;
  for (const double concurrency : concurrencies) {
    load.concurrency = static_cast<int>(concurrency);
    for (const double rate : flags.rates.empty() ? std::vector<double>{0} : flags.rates) {
      load.rate = rate;
      loads.push_back(load);
    }
  }
  if (loads.size() > 1 && !flags.histogram.empty()) {
    return Invalid("--histogram has room for one load; ", loads.size(), " are asked for");
  }
  return loads;
}

// A failed call is counted, not tried again, and no connection is opened that no call would use.
ClientOptions ClientFor(const LoadFlags& flags, const LoadOptions& load) {
  ClientOptions options = flags.connection.client;
  options.connections = std::min(options.connections, load.concurrency);
  options.max_attempts = 1;
  return options;
}

// The measured server; facts that it does not report stay empty.
MeasuredServer Facts(const LoadFlags& flags) {
  MeasuredServer server;
  server.set_address(flags.connection.client.address);
  if (const auto name = AskServerName(flags.protocol, flags.connection.client, kFactsTimeout);
      name.ok()) {
    server.set_name(Printable(name->name));
    server.set_version(Printable(name->version));
  }
  server.set_client_version(BEAMWRIGHT_VERSION);
  server.set_client_cpus(static_cast<int32_t>(std::thread::hardware_concurrency()));
  server.set_time(absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::Now(), absl::UTCTimeZone()));
  return server;
}

// What --metrics adds to a run. A server that cannot be read is reported, and ends nothing.
class MetricsAround {
 public:
  explicit MetricsAround(const std::string& address) : address_(address) {
    if (!address.empty()) {
      before_ = ScrapeMetrics(address, kFactsTimeout);
    }
  }

  void Add(LoadTestReport& run) const {
    if (address_.empty()) {
      return;
    }
    const auto after = before_.ok() ? ScrapeMetrics(address_, kFactsTimeout) : before_;
    if (!after.ok()) {
      std::cerr << "beamwright load-test: --metrics: " << Printable(after.status().message())
                << "\n";
      return;
    }
    for (const auto& [name, value] : MetricsBetween(*before_, *after)) {
      (*run.mutable_server_metrics())[name] = value;
    }
  }

 private:
  const std::string address_;
  absl::StatusOr<Metrics> before_ = Metrics();
};

// Warms up if that is asked for, and measures.
absl::StatusOr<LoadReport> Measure(const LoadFlags& flags, LoadTarget& target, LoadOptions load) {
  std::string unsteady;
  load.on_progress = LoadProgressLine();
  if (flags.warm_until_steady && !load.replay) {
    BW_ASSIGN_OR_RETURN(unsteady, WarmUpUntilSteady(target, load));
  }
  auto report = RunLoad(target, load);
  EndLoadProgress();
  if (report.ok()) {
    report->unsteady = unsteady;
  }
  return report;
}

// Runs the loads until one is interrupted or hopeless, and prints each for people. The status is of
// a load that could not be run at all.
//
// Each load gets new connections. A load that was given up without a single answer is left out of
// all outputs but JSON.
absl::Status RunLoads(const LoadFlags& flags, const std::vector<LoadOptions>& loads,
                      LoadTestSweep& sweep, absl::Status& hopeless) {
  const MeasuredServer server = Facts(flags);
  for (const LoadOptions& load : loads) {
    const ClientOptions options = ClientFor(flags, load);
    BW_ASSIGN_OR_RETURN(auto target, MakeTarget(flags.protocol, options));
    const MetricsAround metrics(flags.metrics);
    BW_ASSIGN_OR_RETURN(const LoadReport report, Measure(flags, *target, load));
    LoadTestReport run = ReportMessage(load, options.connections, report);
    run.set_protocol(flags.protocol_name);
    *run.mutable_server() = server;
    run.mutable_server()->set_model(absl::StrJoin(report.models, ", "));
    metrics.Add(run);
    const bool tells = !report.gave_up || report.num_calls > 0;
    if (tells && !flags.json && !flags.csv) {
      std::cout << ReportText(load, options.connections, report) << ServerText(run) << std::flush;
    }
    if (tells || flags.json) {
      *sweep.add_runs() = std::move(run);
    }
    if (report.gave_up) {
      hopeless = report.first_failure;
    }
    if (report.gave_up || report.stopped) {
      break;
    }
  }
  return absl::OkStatus();
}

// What all loads of a test have in common.
std::string Setup(const LoadFlags& flags) {
  const std::string options = flags.load.request.options().ShortDebugString();
  return absl::StrCat(flags.load.stream ? "streams" : "calls", " of ", flags.load.batch,
                      flags.load.batch == 1 ? " source" : " sources", " by ", flags.protocol_name,
                      ", ", absl::FormatDuration(flags.load.duration), " each after ",
                      flags.warm_until_steady
                          ? "warm-up until steady"
                          : absl::StrCat(absl::FormatDuration(flags.load.warmup), " of warm-up"),
                      options.empty() ? "" : absl::StrCat("; options: ", options));
}

absl::Status WritePage(const LoadFlags& flags, const LoadTestSweep& sweep,
                       const std::string& found) {
  const MeasuredServer server = sweep.runs().empty() ? Facts(flags) : sweep.runs(0).server();
  const LoadPageHead head = {
      .server = flags.connection.client.address,
      .version = absl::StrCat(server.name(), server.version().empty() ? "" : " ", server.version()),
      .model = server.model().empty() ? flags.load.request.model() : server.model(),
      .setup = Setup(flags),
      .time = server.time(),
      .found = found};
  return Annotate(WriteFile(flags.report, LoadPage(head, sweep)), "--report");
}

// The outputs besides the text.
absl::Status WriteOutputs(const LoadFlags& flags, const LoadTestSweep& sweep, bool swept) {
  if (flags.json) {
    std::cout << (swept ? ToJson(sweep, /*pretty=*/true) : ToJson(sweep.runs(0), /*pretty=*/true));
  }
  if (flags.csv) {
    std::cout << LoadCsv(sweep);
  }
  if (!flags.compare.empty()) {
    BW_ASSIGN_OR_RETURN(const LoadTestSweep base, ReadSweep(flags.compare));
    (flags.json || flags.csv ? std::cerr : std::cout) << Comparison(base, sweep);
  }
  if (!flags.histogram.empty() && !sweep.runs().empty()) {
    BW_RETURN_IF_ERROR(Annotate(WriteHistogram(flags.histogram, sweep.runs(0)), "--histogram"));
  }
  return flags.report.empty() ? absl::OkStatus() : WritePage(flags, sweep, "");
}

// The exit code by --fail-if, or by any failure without it.
//
// Wrong answers fail a run whatever the conditions say. Then, with --fail-if, a run fails by a
// condition, or because this machine was the bottleneck: figures that do not count cannot pass.
int Judge(const CLI::App& command, const LoadFlags& flags, const LoadTestSweep& sweep) {
  for (const LoadTestReport& run : sweep.runs()) {
    if (run.wrong_answers() > 0) {
      return Failure(command, absl::StrCat(LoadName(run), ": ", run.wrong_answers(), " of ",
                                           run.checked_answers(), " answers are wrong; first: ",
                                           Printable(run.first_wrong())));
    }
  }
  if (flags.conditions.empty()) {
    const bool fine =
        std::all_of(sweep.runs().begin(), sweep.runs().end(), [](const LoadTestReport& run) {
          return run.failed_calls().empty() && run.failed_sources().empty();
        });
    return fine ? kExitOk : kExitFailed;
  }
  int code = kExitOk;
  for (const LoadTestReport& run : sweep.runs()) {
    std::string why = FailedCondition(flags.conditions, run);
    if (why.empty() && !run.invalid().empty()) {
      why = absl::StrCat("the run does not count: ", run.invalid());
    }
    if (!why.empty()) {
      code = Failure(command, absl::StrCat("--fail-if, ", LoadName(run), ": ", why));
    }
  }
  return code;
}

// 0: a rate was found and confirmed, and --fail-if does not hold for the run that confirmed it.
//
// 1. --rate, if given, says where to look: the lowest and the highest rate.
// 2. FindMaxRate runs trials, each of which is printed as it ends.
// 3. All trials go into the page, by rate; only those that confirmed the rate found are judged by
//    --fail-if.
int SearchMaxRate(const CLI::App& command, const LoadFlags& flags, LoadOptions load) {
  ClientOptions options = flags.connection.client;
  options.max_attempts = 1;
  auto target = MakeTarget(flags.protocol, options);
  if (!target.ok()) {
    return UsageError(command, target.status().message());
  }
  load.concurrency = (*target)->most_in_flight();
  load.on_progress = LoadProgressLine();
  MaxRateOptions search;
  if (!flags.rates.empty()) {
    search.lowest = flags.rates.front();
    search.highest = flags.rates.size() > 1 ? flags.rates.back() : 0;
  }
  const MeasuredServer server = Facts(flags);
  search.on_trial = [&](const RateTrial& trial) {
    EndLoadProgress();
    (flags.json ? std::cerr : std::cout) << TrialLine(trial, flags.slo) << std::flush;
  };
  const auto found = FindMaxRate([&](const LoadOptions& trial) { return RunLoad(**target, trial); },
                                 load, flags.slo, search);
  EndLoadProgress();
  if (!found.ok()) {
    return absl::IsInvalidArgument(found.status())
               ? UsageError(command, found.status().message())
               : Failure(command, Explain(found.status(), flags.connection));
  }
  MaxRateReport message =
      MaxRateMessage(*found, flags.slo, flags.slo_text, load, options.connections);
  LoadTestSweep sweep, confirming;
  for (MaxRateTrial& trial : *message.mutable_trials()) {
    *trial.mutable_run()->mutable_server() = server;
    trial.mutable_run()->set_protocol(flags.protocol_name);
    *sweep.add_runs() = trial.run();
    if (trial.confirms() && trial.rate() == found->rate) {
      *confirming.add_runs() = trial.run();
    }
  }
  const std::string text = MaxRateText(*found, flags.slo_text);
  std::cout << (flags.json ? ToJson(message, /*pretty=*/true) : text) << std::flush;
  if (!flags.report.empty()) {
    std::sort(sweep.mutable_runs()->begin(), sweep.mutable_runs()->end(),
              [](const auto& a, const auto& b) { return a.rate() < b.rate(); });
    if (const auto status = WritePage(flags, sweep, absl::StrReplaceAll(text, {{"\n", " "}}));
        !status.ok()) {
      return Failure(command, status.message());
    }
  }
  if (!found->failure.ok()) {
    return Failure(command, absl::StrCat("the search ended early, no call was answered any more: ",
                                         Explain(found->failure, flags.connection)));
  }
  if (!found->confirmed) {
    return kExitFailed;
  }
  return flags.conditions.empty() ? kExitOk : Judge(command, flags, confirming);
}

// The file of --compare is read before any call is sent: a run of an hour must not end with "no
// such file".
int LoadTest(const CLI::App& command, const LoadFlags& flags) {
  auto loads = Loads(command, flags);
  if (!loads.ok()) {
    return UsageError(command, loads.status().message());
  }
  if (!flags.compare.empty()) {
    if (const auto base = ReadSweep(flags.compare); !base.ok()) {
      return UsageError(command, absl::StrCat("--compare: ", base.status().message()));
    }
  }
  StopOnInterrupt();
  if (flags.find_max_rate) {
    return SearchMaxRate(command, flags, loads->front());
  }
  LoadTestSweep sweep;
  absl::Status hopeless;
  if (absl::Status status = RunLoads(flags, *loads, sweep, hopeless); !status.ok()) {
    return UsageError(command, status.message());
  }
  if (absl::Status status = WriteOutputs(flags, sweep, loads->size() > 1); !status.ok()) {
    return Failure(command, status.message());
  }
  if (!hopeless.ok()) {
    return Failure(command, absl::StrCat("gave up, too many calls in a row failed: ",
                                         Explain(hopeless, flags.connection)));
  }
  return Judge(command, flags, sweep);
}

}  // namespace

Command AddLoadTestCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "load-test", "Keep calls in flight, or send them at a rate, and print rate and latency.");
  auto flags = std::make_shared<LoadFlags>();
  flags->connection.client.connections = 4;
  AddLoadFlags(*app, *flags);
  app->footer(
      "Example:\n"
      "  beamwright load-test --file words.txt --concurrency 64 --duration 30s\n"
      "  beamwright load-test --file words.txt --rate 500 --good-within 100ms\n"
      "  beamwright load-test --file words.txt --concurrency 1..64 --report load.html\n"
      "  beamwright load-test --file words.txt --rate 500 --fail-if 'p99>50ms,errors>1%'\n"
      "  beamwright load-test --file words.txt --find-max-rate --slo 'p99<50ms,errors<0.1%'\n"
      "  beamwright load-test --protocol infer-grpc --server triton:8001 --model m --mix "
      "calls.jsonl\n"
      "Without --rate latency is that of a closed loop; users who arrive at their own pace may "
      "wait "
      "longer.\n"
      "Ctrl-C ends the run and prints what was measured.");
  return {app, [app, flags] { return LoadTest(*app, *flags); }};
}

}  // namespace beamwright::client
