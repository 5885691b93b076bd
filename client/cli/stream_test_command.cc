// beamwright stream-test: what a server does with N people who speak at once.
//
// 1. ReadSound reads the recordings into pieces of --piece; all must be of one format.
// 2. RunStreamLoad (client/load/stream_load.cc) sends them at the pace of speech and measures: from
//    the last sample to the final answer, from the first sample to the first stable token, and
//    whether stable tokens stayed.
// 3. ReportOf and TextOf print this; with --metrics also the calls that the server has counted.
//
// A stream is a person: she speaks a recording to its end, at the pace of its samples times
// --speed, and begins the next one. Every figure counts from when a sample was due, not from when
// it was sent, so that a client that is late shows as lag. A stream fails if its call fails; it is
// contradicted if a token that the server called stable is not in the final answer.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/answers.h"
#include "client/cli/command.h"
#include "client/cli/features.h"
#include "client/cli/flags.h"
#include "client/cli/load_report.h"
#include "client/cli/output.pb.h"
#include "client/load/server_facts.h"
#include "client/load/stream_load.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

constexpr absl::Duration kScrapeTimeout = absl::Seconds(5);

struct StreamTestFlags {
  std::vector<std::string> files;
  SoundFlags sound;
  ConnectionFlags connection;
  StreamLoadOptions load;
  v1::Endpoint endpoint;
  bool ends_segments = false;
  std::string metrics;
  bool json = false;
};

// The files' sound in pieces, as a microphone gives it. All are of one format, which is set.
//
// A piece is `load.piece` long, the last one of a file shorter: 16,000 samples a second of 2 bytes
// in pieces of 100 ms are 3,200 bytes each. The whole files are held in memory, so that reading a
// disk changes no time that is measured.
absl::Status ReadSound(const StreamTestFlags& flags, StreamLoadOptions& load) {
  for (const std::string& path : flags.files) {
    const absl::StatusOr<Sound> sound = OpenSound(path, flags.sound);
    if (!sound.ok()) {
      return Annotate(sound.status(), path);
    }
    v1::AudioFormat& format = *load.config.mutable_audio();
    if (!load.sources.empty() && sound->format.SerializeAsString() != format.SerializeAsString()) {
      return Invalid(path, ": is of another rate or width than the file before it");
    }
    format = sound->format;
    std::string samples;
    for (std::string piece = sound->next(); !piece.empty(); piece = sound->next()) {
      samples += piece;
    }
    BW_RETURN_IF_ERROR(Annotate(*sound->failure, path));
    const auto num_samples = static_cast<size_t>(
        std::max(1.0, format.sample_rate() * absl::ToDoubleSeconds(load.piece)));
    const size_t size = num_samples * SampleBytes(format);
    SpokenSource& source = load.sources.emplace_back();
    source.length = absl::Seconds(1) * (static_cast<double>(samples.size()) / SampleBytes(format) /
                                        format.sample_rate());
    for (size_t at = 0; at < samples.size(); at += size) {
      source.pieces.emplace_back().set_audio(samples.substr(at, size));
    }
  }
  return absl::OkStatus();
}

// Calls of Recognize that the server has counted, by code.
//
// From lines as beamwright_requests_total{code="OK",method="Recognize",...} 17, of all models
// together.
absl::StatusOr<std::map<std::string, double>> CountedCalls(const std::string& address) {
  BW_ASSIGN_OR_RETURN(const Metrics metrics, ScrapeMetrics(address, kScrapeTimeout));
  std::map<std::string, double> counted;
  for (const auto& [name, value] : metrics.counters) {
    const std::string kCode = "code=\"";
    const size_t code = name.find(kCode);
    if (absl::StartsWith(name, "beamwright_requests_total{") &&
        absl::StrContains(name, "method=\"Recognize\"") && code != std::string::npos) {
      const size_t begin = code + kCode.size();
      counted[name.substr(begin, name.find('"', begin) - begin)] += value;
    }
  }
  return counted;
}

StreamTestReport ReportOf(const StreamTestFlags& flags, const StreamLoadReport& report) {
  StreamTestReport message;
  message.set_address(flags.connection.client.address);
  message.set_streams(flags.load.streams);
  message.set_speed(flags.load.speed);
  message.set_elapsed_seconds(absl::ToDoubleSeconds(report.elapsed));
  message.set_heard_streams(static_cast<int32_t>(report.num_heard));
  for (const auto& [code, count] : report.failed) {
    (*message.mutable_failed_streams())[absl::StatusCodeToString(code)] =
        static_cast<int32_t>(count);
  }
  if (!report.first_failure.ok()) {
    message.set_first_failure(CodeAndMessage(report.first_failure));
  }
  message.set_sound_seconds(absl::ToDoubleSeconds(report.sound));
  message.set_segments(static_cast<int32_t>(report.num_segments));
  message.set_contradicted_streams(static_cast<int32_t>(report.num_contradicted));
  SetPercentiles(report.final_latency, *message.mutable_final_ms());
  SetPercentiles(report.first_word, *message.mutable_first_word_ms());
  SetPercentiles(report.real_time_factor, *message.mutable_real_time_factor());
  SetPercentiles(report.lag, *message.mutable_lag_ms());
  message.set_stopped(report.stopped);
  return message;
}

std::string TextOf(const StreamTestReport& message, const StreamLoadReport& report) {
  const LatencyMs& factor = message.real_time_factor();
  std::string text = absl::StrFormat(
      "%d streams at %g times their pace for %.1f s: %d heard, %.1f s of sound, %d segments\n",
      message.streams(), message.speed(), message.elapsed_seconds(), message.heard_streams(),
      message.sound_seconds(), message.segments());
  absl::StrAppend(&text, Bold("final  "), "  ", PercentilesText(report.final_latency),
                  " from the last sample to the answer\n");
  absl::StrAppend(&text, Bold("first  "), "  ", PercentilesText(report.first_word),
                  " from the first sample to the first stable token\n");
  absl::StrAppendFormat(&text,
                        "%s  p50 %.3f, p99 %.3f, max %.3f: time to the answer over that of "
                        "the sound\n",
                        Bold("factor "), factor.p50(), factor.p99(), factor.max());
  absl::StrAppend(&text, Bold("lag    "), "  ", PercentilesText(report.lag), "\n");
  std::vector<std::string> failed;
  for (const auto& [code, count] : message.failed_streams()) {
    failed.push_back(absl::StrCat(code, " ", count));
  }
  if (!failed.empty()) {
    absl::StrAppend(&text, Bold("failed "), "  ", absl::StrJoin(failed, ", "),
                    "; first: ", Printable(message.first_failure()), "\n");
  }
  if (message.contradicted_streams() > 0) {
    absl::StrAppend(&text, Bold("wrong  "), "  ", message.contradicted_streams(),
                    " streams got a token as stable that their answer does not have\n");
  }
  std::vector<std::string> counted;
  for (const auto& [code, count] : message.counted_calls()) {
    counted.push_back(absl::StrCat(code, " ", count));
  }
  if (!counted.empty()) {
    absl::StrAppend(&text, Bold("server "), "  counted ", absl::StrJoin(counted, ", "), "\n");
  }
  return text;
}

// 1. The recordings are read, and the call's settings completed.
// 2. The server's counters are read, if --metrics says where.
// 3. The load runs, until its time is over or the user interrupts it.
// 4. The counters are read again; what they gained is in the report. A server that counts fewer
//    calls than this program started has lost some.
// 5. The exit code is a failure if any stream failed or was contradicted: the command can be a
//    test.
int StreamTest(const CLI::App& command, const StreamTestFlags& flags) {
  StreamLoadOptions load = flags.load;
  if (const absl::Status status = ReadSound(flags, load); !status.ok()) {
    return absl::IsInvalidArgument(status) ? UsageError(command, status.message())
                                           : Failure(command, status.message());
  }
  if (flags.ends_segments || flags.endpoint.ByteSizeLong() > 0) {
    *load.config.mutable_endpoint() = flags.endpoint;
  }
  load.timeout = flags.connection.timeout;
  load.stop = &interrupted;
  auto client = Client::Connect(flags.connection.client);
  if (!client.ok()) {
    return UsageError(command, client.status().message());
  }
  StopOnInterrupt();
  absl::StatusOr<std::map<std::string, double>> before;
  if (!flags.metrics.empty()) {
    before = CountedCalls(flags.metrics);
    if (!before.ok()) {
      return Failure(command, absl::StrCat("--metrics: ", before.status().message()));
    }
  }
  const absl::StatusOr<StreamLoadReport> report = RunStreamLoad(**client, load);
  if (!report.ok()) {
    return UsageError(command, report.status().message());
  }
  StreamTestReport message = ReportOf(flags, *report);
  if (!flags.metrics.empty()) {
    const auto after = CountedCalls(flags.metrics);
    if (!after.ok()) {
      return Failure(command, absl::StrCat("--metrics: ", after.status().message()));
    }
    for (const auto& [code, count] : *after) {
      const auto found = before->find(code);
      const double gained = count - (found == before->end() ? 0 : found->second);
      if (gained > 0) {
        (*message.mutable_counted_calls())[code] = static_cast<int32_t>(gained);
      }
    }
  }
  std::cout << (flags.json ? ToJson(message, /*pretty=*/true) : TextOf(message, *report))
            << std::flush;
  const bool fine = report->failed.empty() && report->num_contradicted == 0;
  return fine ? kExitOk : kExitFailed;
}

}  // namespace

Command AddStreamTestCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "stream-test", "Have many people speak at once, and measure when they are answered.");
  auto flags = std::make_shared<StreamTestFlags>();
  StreamLoadOptions& load = flags->load;
  app->add_option("FILE", flags->files, "Recordings, as for recognize; streams take turns.")
      ->required();
  AddIntFlag(*app, {"--streams", "Load", "How many speak at once."}, 1, kMaxConcurrency,
             load.streams);
  AddDurationFlag(*app,
                  {"--duration", "Load",
                   "Streams begin for so long; those that have begun are spoken to their end."},
                  absl::Milliseconds(1), kMaxLoadDuration, load.duration);
  AddDurationFlag(*app, {"--piece", "Load", "Sound that is sent together."}, absl::Milliseconds(10),
                  absl::Seconds(10), load.piece);
  app->add_option("--speed", load.speed, "Times as fast as it is spoken.")
      ->check(CLI::Range(0.01, 1000.0))
      ->group("Load");
  app->add_option("--metrics", flags->metrics,
                  "Where the server's metrics are, HOST:PORT: what it counted is printed, too.")
      ->group("Load");
  AddChannelFlag(*app, flags->sound);
  AddModelFlags(*app, load.config);
  AddConnectionFlags(*app, flags->connection);
  AddMessageFlags(*app, "Other options", *load.config.mutable_options());
  app->add_flag("--segments", flags->ends_segments,
                "End segments at pauses; so do the flags that say when.")
      ->group("Segments");
  AddMessageFlags(*app, "Segments", flags->endpoint);
  app->add_flag_callback(
         "--provisional", [flags] { flags->load.config.set_provisional(true); },
         "Ask for the best hypothesis so far as well, as people who watch do.")
      ->group("Load");
  app->add_flag("--json", flags->json, "Print the report as JSON.")->group("Output");
  app->footer(
      "Streams begin one after the other within the length of a source, and go on with the next\n"
      "when they have ended. A piece is sent when its last sample has been spoken. Example:\n"
      "  beamwright stream-test talk.wav --model speech --streams 50 --duration 30s\n"
      "Exit code: 0 all heard, 1 a stream or the server failed, 2 wrong command line.");
  return {app, [app, flags] { return StreamTest(*app, *flags); }};
}

}  // namespace beamwright::client
