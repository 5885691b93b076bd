// beamwright load-test: what a server does with N calls in flight, or with R calls a second.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/answers.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/connection.h"
#include "client/cli/flags.h"
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
  bool json = false;
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

absl::StatusOr<std::vector<v1::Source>> ReadSources(const SourceFlags& flags) {
  if (flags.words.empty() && flags.file.empty()) {
    return Invalid("there is nothing to send: name sources, or a file of them with --file");
  }
  BW_ASSIGN_OR_RETURN(auto reader, SourceReader::Open(flags));
  std::vector<v1::Source> sources;
  BulkSource source;
  while (reader->Next(source)) {
    BW_RETURN_IF_ERROR(Annotate(source.status, absl::StrCat("source ", sources.size() + 1)));
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

int LoadTest(const CLI::App& command, LoadFlags& flags) {
  auto sources = ReadSources(flags.sources);
  if (!sources.ok()) {
    return UsageError(command, sources.status().message());
  }
  flags.load.sources = *std::move(sources);
  flags.load.timeout = flags.connection.timeout;
  flags.load.max_calls = flags.max_calls;
  if (flags.good_within > absl::ZeroDuration()) {
    flags.load.good_within = flags.good_within;
  }
  flags.load.stop = &interrupted;
  if (flags.load.rate > 0 && command.count("--concurrency") == 0) {
    flags.load.concurrency = kMaxConcurrency;
  }
  if (flags.max_calls > 0 && command.count("--duration") == 0) {
    flags.load.duration = kMaxLoadDuration;
  }
  ClientOptions& client_options = flags.connection.client;
  client_options.connections = std::min(client_options.connections, flags.load.concurrency);
  client_options.max_attempts = 1;
  auto client = Client::Connect(client_options);
  if (!client.ok()) {
    return UsageError(command, client.status().message());
  }
  StopOnInterrupt();
  const auto report = RunLoad(**client, flags.load);
  if (!report.ok()) {
    return UsageError(command, report.status().message());
  }
  if (flags.json) {
    std::cout << ToJson(ReportMessage(flags.load, client_options.connections, *report),
                        /*pretty=*/true);
  } else if (!report->gave_up || report->num_calls > 0) {
    std::cout << ReportText(flags.load, client_options.connections, *report);
  }
  if (report->gave_up) {
    return Failure(command, absl::StrCat("gave up, too many calls in a row failed: ",
                                         Explain(report->first_failure, flags.connection)));
  }
  return report->failed_calls.empty() && report->failed_sources.empty() ? kExitOk : kExitFailed;
}

// The open loop's flags, and what it calls a good answer.
void AddScheduleFlags(CLI::App& app, LoadFlags& flags) {
  app.add_option("--rate", flags.load.rate,
                 "Calls a second that are sent whatever the answers do; latency counts from when a "
                 "call was due. Without it: a closed loop. [0.001 to 1000000]")
      ->type_name("CALLS/S")
      ->check(CLI::Range(0.001, kMaxRate).description(""))
      ->group(kLoadGroup);
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
  AddIntFlag(*app,
             {"--concurrency", kLoadGroup,
              "Calls in flight; an answer starts the next. With --rate: the most of them."},
             1, kMaxConcurrency, flags->load.concurrency);
  AddScheduleFlags(*app, *flags);
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
  app->add_flag("--json", flags->json, "Print the report as JSON.")->group("Output");
  app->footer(
      "Example:\n"
      "  beamwright load-test --file words.txt --concurrency 64 --duration 30s\n"
      "  beamwright load-test --file words.txt --rate 500 --good-within 100ms\n"
      "Without --rate latency is that of a closed loop; users who arrive at their own pace may "
      "wait "
      "longer.\n"
      "Ctrl-C ends the run and prints what was measured.");
  return {app, [app, flags] { return LoadTest(*app, *flags); }};
}

}  // namespace beamwright::client
