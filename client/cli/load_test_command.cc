// beamwright load-test: how much a server can do with N calls in flight.
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
#include "absl/strings/str_format.h"
#include "client/cli/answers.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/connection.h"
#include "client/cli/flags.h"
#include "client/cli/output.pb.h"
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

double PerSecond(int64_t count, const LoadReport& report) {
  const double seconds = absl::ToDoubleSeconds(report.elapsed);
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::string Milliseconds(absl::Duration duration) {
  return absl::StrFormat("%.3f ms", absl::ToDoubleMilliseconds(duration));
}

std::string Counts(const std::map<absl::StatusCode, int64_t>& counts) {
  std::string text;
  for (const auto& [code, count] : counts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", absl::StatusCodeToString(code), " ",
                    WithCommas(count));
  }
  return text;
}

void PrintReport(const LoadFlags& flags, const LoadReport& report) {
  std::cout << absl::StrFormat(
      "%d calls in flight of %d source%s over %d connection%s, %.1f s%s\n", flags.load.concurrency,
      flags.load.batch, flags.load.batch == 1 ? "" : "s", flags.connection.client.connections,
      flags.connection.client.connections == 1 ? "" : "s", absl::ToDoubleSeconds(report.elapsed),
      report.stopped ? " (interrupted)" : "");
  std::cout << absl::StrFormat("%s  %.1f sources/s, %.1f calls/s\n", Bold("rate   "),
                               PerSecond(report.num_sources, report),
                               PerSecond(report.num_calls, report));
  std::cout << absl::StrFormat("%s  p50 %s, p90 %s, p99 %s, max %s\n", Bold("latency"),
                               Milliseconds(report.p50), Milliseconds(report.p90),
                               Milliseconds(report.p99), Milliseconds(report.max));
  std::cout << absl::StrFormat("%s  %s calls answered, %s sources decoded\n", Bold("counts "),
                               WithCommas(report.num_calls), WithCommas(report.num_sources));
  if (!report.failed_calls.empty()) {
    std::cout << Bold("failed ") << "  calls: " << Counts(report.failed_calls) << "\n";
  }
  if (!report.failed_sources.empty()) {
    std::cout << Bold("failed ") << "  sources: " << Counts(report.failed_sources) << "\n";
  }
  if (!report.first_failure.ok()) {
    std::cout << "         first: " << CodeAndMessage(report.first_failure) << "\n";
  }
}

LoadTestReport ToMessage(const LoadFlags& flags, const LoadReport& report) {
  LoadTestReport message;
  message.set_concurrency(flags.load.concurrency);
  message.set_connections(flags.connection.client.connections);
  message.set_batch(flags.load.batch);
  message.set_elapsed_seconds(absl::ToDoubleSeconds(report.elapsed));
  message.set_answered_calls(static_cast<int32_t>(report.num_calls));
  message.set_decoded_sources(static_cast<int32_t>(report.num_sources));
  message.set_calls_per_second(PerSecond(report.num_calls, report));
  message.set_sources_per_second(PerSecond(report.num_sources, report));
  message.mutable_latency_ms()->set_p50(absl::ToDoubleMilliseconds(report.p50));
  message.mutable_latency_ms()->set_p90(absl::ToDoubleMilliseconds(report.p90));
  message.mutable_latency_ms()->set_p99(absl::ToDoubleMilliseconds(report.p99));
  message.mutable_latency_ms()->set_max(absl::ToDoubleMilliseconds(report.max));
  for (const auto& [code, count] : report.failed_calls) {
    (*message.mutable_failed_calls())[absl::StatusCodeToString(code)] = static_cast<int32_t>(count);
  }
  for (const auto& [code, count] : report.failed_sources) {
    (*message.mutable_failed_sources())[absl::StatusCodeToString(code)] =
        static_cast<int32_t>(count);
  }
  if (!report.first_failure.ok()) {
    message.set_first_failure(CodeAndMessage(report.first_failure));
  }
  message.set_gave_up(report.gave_up);
  message.set_stopped(report.stopped);
  return message;
}

int LoadTest(const CLI::App& command, LoadFlags& flags) {
  auto sources = ReadSources(flags.sources);
  if (!sources.ok()) {
    return UsageError(command, sources.status().message());
  }
  flags.load.sources = *std::move(sources);
  flags.load.timeout = flags.connection.timeout;
  flags.load.max_calls = flags.max_calls;
  flags.load.stop = &interrupted;
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
    std::cout << ToJson(ToMessage(flags, *report), /*pretty=*/true);
  } else if (!report->gave_up || report->num_calls > 0) {
    PrintReport(flags, *report);
  }
  if (report->gave_up) {
    return Failure(command, absl::StrCat("gave up, too many calls in a row failed: ",
                                         Explain(report->first_failure, flags.connection)));
  }
  return report->failed_calls.empty() && report->failed_sources.empty() ? kExitOk : kExitFailed;
}

}  // namespace

Command AddLoadTestCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "load-test", "Keep calls in flight for a while and print rate and latency.");
  auto flags = std::make_shared<LoadFlags>();
  flags->connection.client.connections = 4;
  AddSourceFlags(*app, flags->sources);
  app->add_option("--model", *flags->load.request.mutable_model(), "The model to decode with.")
      ->type_name("NAME")
      ->group("Input");
  app->add_option("--version", *flags->load.request.mutable_version(),
                  "Its version [default: the newest that is served]")
      ->type_name("VERSION")
      ->group("Input");
  AddConnectionFlags(*app, flags->connection);
  AddIntFlag(*app, {"--connections", kConnectionGroup, "Connections that calls are spread over."},
             1, 64, flags->connection.client.connections);
  AddIntFlag(*app, {"--concurrency", kLoadGroup, "Calls in flight; an answer starts the next."}, 1,
             kMaxConcurrency, flags->load.concurrency);
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
      "Latency here is that of a closed loop; users who arrive at their own pace may wait longer.\n"
      "Ctrl-C ends the run and prints what was measured.");
  return {app, [app, flags] { return LoadTest(*app, *flags); }};
}

}  // namespace beamwright::client
