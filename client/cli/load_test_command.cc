// beamwright load-test: what a server does with N calls in flight, or with R calls a second.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/answers.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/connection.h"
#include "client/cli/flags.h"
#include "client/cli/load_conditions.h"
#include "client/cli/load_mix.h"
#include "client/cli/load_outputs.h"
#include "client/cli/load_page.h"
#include "client/cli/load_points.h"
#include "client/cli/load_progress.h"
#include "client/cli/load_report.h"
#include "client/cli/sources.h"
#include "client/cli/terminal.h"
#include "client/load/load.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

constexpr char kLoadGroup[] = "Load";
constexpr size_t kMaxSources = 1'000'000;
constexpr int kMaxCalls = 1'000'000'000;

struct LoadFlags {
  SourceFlags sources;
  ConnectionFlags connection;
  LoadOptions load;
  absl::Duration good_within = absl::ZeroDuration();
  int max_calls = 0;
  std::vector<double> concurrencies = {16};
  std::vector<double> rates;  // none: closed loop
  bool json = false;
  bool csv = false;
  std::string report, histogram, compare, mix;
  std::vector<LoadCondition> conditions;
};

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// The first interrupt ends the run in order; a second one, the process.
void StopOnInterrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted.store(true); };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaction(signal, &action, nullptr);
  }
}

absl::StatusOr<std::vector<v1::Source>> ReadSources(const LoadFlags& load) {
  const SourceFlags& flags = load.sources;
  if (flags.words.empty() && flags.file.empty() && flags.features.files.empty()) {
    return Invalid(
        "there is nothing to send: name sources, or files of them with --file or --features");
  }
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                      Client::Connect(load.connection.client));
  BW_ASSIGN_OR_RETURN(std::optional<FeatureFiles> features,
                      FeatureFiles::Open(flags.features, *client, load.load.request.model(),
                                         load.load.request.version(), load.connection.Deadline()));
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

ClientOptions ClientFor(const LoadFlags& flags, const LoadOptions& load) {
  ClientOptions options = flags.connection.client;
  options.connections = std::min(options.connections, load.concurrency);
  options.max_attempts = 1;
  return options;
}

// The loads to run, one after the other.
absl::StatusOr<std::vector<LoadOptions>> Loads(const CLI::App& command, const LoadFlags& flags) {
  LoadOptions load = flags.load;
  if (flags.mix.empty()) {
    BW_ASSIGN_OR_RETURN(load.sources, ReadSources(flags));
  } else if (!flags.sources.words.empty() || !flags.sources.file.empty() ||
             !flags.sources.features.files.empty()) {
    return Invalid(
        "--mix has its own sources; leave out those of the arguments, --features and --file");
  } else {
    auto mix = ReadMix(flags.mix);
    BW_RETURN_IF_ERROR(Annotate(mix.status(), "--mix"));
    load.mix = *std::move(mix);
  }
  load.timeout = flags.connection.timeout;
  load.max_calls = flags.max_calls;
  if (flags.good_within > absl::ZeroDuration()) {
    load.good_within = flags.good_within;
  }
  load.stop = &interrupted;
  if (flags.max_calls > 0 && command.count("--duration") == 0) {
    load.duration = kMaxLoadDuration;
  }
  std::vector<double> concurrencies = flags.concurrencies;
  if (!flags.rates.empty() && command.count("--concurrency") == 0) {
    concurrencies = {kMaxConcurrency};
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

// Runs the loads until one is interrupted or hopeless, and prints each for people. The status is of
// a load that could not be run at all.
absl::Status RunLoads(const LoadFlags& flags, std::vector<LoadOptions>& loads, LoadTestSweep& sweep,
                      absl::Status& hopeless) {
  for (LoadOptions& load : loads) {
    load.on_progress = LoadProgressLine();
    const ClientOptions options = ClientFor(flags, load);
    BW_ASSIGN_OR_RETURN(auto client, Client::Connect(options));
    const auto report = RunLoad(*client, load);
    EndLoadProgress();
    BW_RETURN_IF_ERROR(report.status());
    if (!report->gave_up || report->num_calls > 0 || flags.json) {
      *sweep.add_runs() = ReportMessage(load, options.connections, *report);
    }
    if (!flags.json && !flags.csv && (!report->gave_up || report->num_calls > 0)) {
      std::cout << ReportText(load, options.connections, *report) << std::flush;
    }
    if (report->gave_up) {
      hopeless = report->first_failure;
    }
    if (report->gave_up || report->stopped) {
      break;
    }
  }
  return absl::OkStatus();
}

// What all loads of a test have in common.
std::string Setup(const LoadFlags& flags) {
  const std::string options = flags.load.request.options().ShortDebugString();
  return absl::StrCat(flags.load.stream ? "streams" : "calls", " of ", flags.load.batch,
                      flags.load.batch == 1 ? " source" : " sources", ", ",
                      absl::FormatDuration(flags.load.duration), " each after ",
                      absl::FormatDuration(flags.load.warmup), " of warm-up",
                      options.empty() ? "" : absl::StrCat("; options: ", options));
}

// What was asked for beside the text.
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
    BW_RETURN_IF_ERROR(
        Annotate(WriteFile(flags.histogram, HdrPercentiles(sweep.runs(0))), "--histogram"));
  }
  if (!flags.report.empty()) {
    const LoadPageHead head = {
        .server = flags.connection.client.address,
        .model = flags.load.request.model(),
        .setup = Setup(flags),
        .time = absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::Now(), absl::UTCTimeZone())};
    BW_RETURN_IF_ERROR(Annotate(WriteFile(flags.report, LoadPage(head, sweep)), "--report"));
  }
  return absl::OkStatus();
}

// The exit code by --fail-if, or by any failure without it.
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

int LoadTest(const CLI::App& command, LoadFlags& flags) {
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

// A flag of one load or several.
CLI::Option* AddLoadPointsFlag(CLI::App& app, const char* name, const char* text, double minimum,
                               double maximum, bool whole, std::vector<double>& points) {
  return app
      .add_option(
          name,
          [=, &points](const CLI::results_t& values) {
            auto parsed = ParseLoadPoints(values[0], minimum, maximum);
            if (!parsed.ok()) {
              throw CLI::ValidationError(name, std::string(parsed.status().message()));
            }
            for (const double point : *parsed) {
              if (whole && point != std::floor(point)) {
                throw CLI::ValidationError(name, absl::StrCat(point, " is not a whole number"));
              }
            }
            points = *std::move(parsed);
            return true;
          },
          text)
      ->group(kLoadGroup);
}

void AddOutputFlags(CLI::App& app, LoadFlags& flags) {
  constexpr char kOutput[] = "Output";
  CLI::Option* json =
      app.add_flag("--json", flags.json, "Print the report as JSON.")->group(kOutput);
  app.add_flag("--csv", flags.csv, "Print a line of CSV a load.")->excludes(json)->group(kOutput);
  app.add_option("--report", flags.report, "Write tables and charts as one HTML page.")
      ->type_name("FILE")
      ->group(kOutput);
  app.add_option("--histogram", flags.histogram,
                 "Write the distribution of latency as HdrHistogram's percentile text.")
      ->type_name("FILE")
      ->group(kOutput);
  app.add_option("--compare", flags.compare,
                 "Print the change since a load test whose --json output is in this file.")
      ->type_name("FILE")
      ->group(kOutput);
  app.add_option(
         "--fail-if",
         [&flags](const CLI::results_t& values) {
           auto parsed = ParseConditions(values[0]);
           if (!parsed.ok()) {
             throw CLI::ValidationError("--fail-if", std::string(parsed.status().message()));
           }
           flags.conditions = *std::move(parsed);
           return true;
         },
         "Exit with 1 if one of these holds or a run is invalid, and only then; such as "
         "p99>50ms,errors>1%,rate<100. Without it: if anything failed.")
      ->type_name("CONDITIONS")
      ->group(kOutput);
}

// The open loop's flags, and what it calls a good answer.
void AddScheduleFlags(CLI::App& app, LoadFlags& flags) {
  AddLoadPointsFlag(
      app, "--rate",
      "Calls a second that are sent whatever the answers do; latency counts from when a "
      "call was due. Without it: a closed loop. Several, such as 100,200 or 100..2000 "
      "(doubling), one after the other. [0.001 to 1000000]",
      0.001, kMaxRate, /*whole=*/false, flags.rates)
      ->type_name("CALLS/S");
  app.add_option("--arrivals", flags.load.arrivals,
                 "With --rate: how calls arrive. [poisson or even; default poisson]")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, Arrivals>{{"poisson", Arrivals::kPoisson},
                                                                  {"even", Arrivals::kEven}})
              .description(""))
      ->type_name("NAME")
      ->default_str("poisson")
      ->needs("--rate")
      ->group(kLoadGroup);
  app.add_option("--arrival-seed", flags.load.seed,
                 "Where the chance of arrivals starts from. [default 1]")
      ->type_name("N")
      ->default_str("1")
      ->needs("--rate")
      ->group(kLoadGroup);
  AddDurationFlag(app,
                  {"--good-within", kLoadGroup,
                   "Answers that take longer are left out of the goodput; 0 counts all."},
                  absl::ZeroDuration(), kMaxLoadDuration, flags.good_within);
}

}  // namespace

Command AddLoadTestCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "load-test", "Keep calls in flight, or send them at a rate, and print rate and latency.");
  auto flags = std::make_shared<LoadFlags>();
  flags->connection.client.connections = 4;
  AddSourceFlags(*app, flags->sources);
  app->add_option("--model", *flags->load.request.mutable_model(), "The model to decode with.")
      ->type_name("NAME")
      ->group("Input");
  app->add_option("--version", *flags->load.request.mutable_version(),
                  "Its version, or a label of it [default: the newest that is served]")
      ->type_name("VERSION")
      ->group("Input");
  AddConnectionFlags(*app, flags->connection);
  AddIntFlag(*app, {"--connections", kConnectionGroup, "Connections that calls are spread over."},
             1, 64, flags->connection.client.connections);
  AddLoadPointsFlag(
      *app, "--concurrency",
      "Calls in flight; an answer starts the next. With --rate: the most of them. Several, "
      "such as 1,2,4 or 1..128 (doubling), one after the other. [1 to 4096; default 16]",
      1, kMaxConcurrency, /*whole=*/true, flags->concurrencies)
      ->type_name("N");
  AddScheduleFlags(*app, *flags);
  app->add_option(
         "--mix", flags->mix,
         "Calls from this file, a JSON object a line: source, options, priority, timeout, times, "
         "and hypotheses, the first of which the answer is checked against.")
      ->type_name("FILE")
      ->group("Input");
  app->add_flag("--stream", flags->load.stream,
                "Calls are streams; also times the first token that can't change.")
      ->excludes("--rate")
      ->group(kLoadGroup);
  AddIntFlag(*app, {"--batch", kLoadGroup, "Sources a call."}, 1, 4096, flags->load.batch);
  AddDurationFlag(*app, {"--duration", kLoadGroup, "How long calls are started and counted."},
                  absl::Milliseconds(1), kMaxLoadDuration, flags->load.duration);
  AddDurationFlag(*app, {"--warmup", kLoadGroup, "Calls are made but not counted for this long."},
                  absl::ZeroDuration(), absl::Hours(1), flags->load.warmup);
  AddIntFlag(*app,
             {"--requests", kLoadGroup,
              "Count this many calls, then end; 0 is no limit. Without --duration, however long it "
              "takes."},
             0, kMaxCalls, flags->max_calls);
  AddMessageFlags(*app, "Other options", *flags->load.request.mutable_options());
  AddOutputFlags(*app, *flags);
  app->footer(
      "Example:\n"
      "  beamwright load-test --file words.txt --concurrency 64 --duration 30s\n"
      "  beamwright load-test --file words.txt --rate 500 --good-within 100ms\n"
      "  beamwright load-test --file words.txt --concurrency 1..64 --report load.html\n"
      "  beamwright load-test --file words.txt --rate 500 --fail-if 'p99>50ms,errors>1%'\n"
      "Without --rate latency is that of a closed loop; users who arrive at their own pace may "
      "wait "
      "longer.\n"
      "Ctrl-C ends the run and prints what was measured.");
  return {app, [app, flags] { return LoadTest(*app, *flags); }};
}

}  // namespace beamwright::client
