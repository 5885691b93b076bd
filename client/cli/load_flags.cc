#include "client/cli/load_flags.h"

#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/flags.h"
#include "client/cli/load_points.h"
#include "client/cli/model_flags.h"
#include "client/cli/terminal.h"

namespace beamwright::client {
namespace {

constexpr char kLoadGroup[] = "Load";
constexpr int kMaxCalls = 1'000'000'000;

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

void AddLoadOutputFlags(CLI::App& app, LoadFlags& flags) {
  constexpr char kOutput[] = "Output";
  CLI::Option* json =
      app.add_flag("--json", flags.json, "Print the report as JSON.")->group(kOutput);
  app.add_flag("--csv", flags.csv, "Print a line of CSV a load.")->excludes(json)->group(kOutput);
  app.add_option("--report", flags.report, "Write tables and charts as one HTML page.")
      ->type_name("FILE")
      ->group(kOutput);
  app.add_option(
         "--histogram", flags.histogram,
         "Write the distribution of latency as HdrHistogram's percentile text, or as its log "
         "where the name ends in .hlog.")
      ->type_name("FILE")
      ->group(kOutput);
  app.add_option("--compare", flags.compare,
                 "Print the change since a load test whose --json output is in this file.")
      ->type_name("FILE")
      ->group(kOutput);
  app.add_option("--metrics", flags.metrics,
                 "Read the server's Prometheus metrics before and after each load, and print what "
                 "they gained [host:port or URL; this server's are on port 8002]")
      ->type_name("ADDRESS")
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
  app.add_option("--speed", flags.load.speed,
                 "How many times as fast as it says a trace is replayed. [default 1]")
      ->type_name("X")
      ->check(CLI::Range(1e-3, 1e6))
      ->group(kLoadGroup);
  AddDurationFlag(app,
                  {"--good-within", kLoadGroup,
                   "Answers that take longer are left out of the goodput; 0 counts all."},
                  absl::ZeroDuration(), kMaxLoadDuration, flags.good_within);
}

// A share such as 5%, then a colon and a time: "5%:20ms".
absl::StatusOr<std::pair<double, absl::Duration>> ParseCancel(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  double share = 0;
  absl::Duration after;
  if (parts.size() == 2 && absl::EndsWith(parts[0], "%") &&
      absl::SimpleAtod(absl::StripSuffix(parts[0], "%"), &share) && share > 0 && share <= 100 &&
      absl::ParseDuration(parts[1], &after) && after >= absl::Milliseconds(1) &&
      after <= kMaxLoadDuration) {
    return std::pair(share / 100, after);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", Printable(std::string(text)),
      "\" is not a share up to 100% with a time of 1ms or more behind a colon, such as 5%:20ms"));
}

void AddWarmUpFlag(CLI::App& app, LoadFlags& flags) {
  app.add_option(
         "--warmup",
         [&flags](const CLI::results_t& values) {
           double number = 0;
           absl::Duration parsed;
           flags.warm_until_steady = values[0] == "steady";
           if (flags.warm_until_steady) {
             return true;
           }
           if (absl::SimpleAtod(values[0], &number) && std::isfinite(number) && number != 0) {
             throw CLI::ValidationError(
                 "--warmup",
                 absl::StrCat("\"", values[0], "\" has no unit; write ", values[0], "s"));
           }
           if (!absl::ParseDuration(values[0], &parsed) || !(parsed >= absl::ZeroDuration()) ||
               parsed > absl::Hours(1)) {
             throw CLI::ValidationError(
                 "--warmup", absl::StrCat("\"", values[0],
                                          "\" is neither a duration from 0 to 1h nor 'steady'"));
           }
           flags.load.warmup = parsed;
           return true;
         },
         "Calls are made but not counted for this long; 'steady': until rate and median keep still "
         "for five seconds, a minute at most. [0 to 1h; default 1s]")
      ->type_name("DURATION")
      ->group(kLoadGroup);
}

// What calls are, and where they go.
void AddCallFlags(CLI::App& app, LoadFlags& flags) {
  app.add_option(
         "--mix", flags.mix,
         "Calls from this file, a JSON object a line: source, ids or infer; options, priority, "
         "tenant, timeout, cancel_after, times; at, of a trace; and hypotheses, the first of which "
         "the answer is checked against.")
      ->type_name("FILE")
      ->group("Input");
  app.add_option_function<std::string>(
         "--protocol",
         [&flags](const std::string& name) {
           const std::map<std::string, Protocol> protocols = {{"native", Protocol::kNative},
                                                              {"rest", Protocol::kRest},
                                                              {"infer-grpc", Protocol::kInferGrpc},
                                                              {"infer-http", Protocol::kInferHttp}};
           const auto it = protocols.find(name);
           if (it == protocols.end()) {
             throw CLI::ValidationError("--protocol",
                                        absl::StrCat("\"", name,
                                                     "\" is not known: native, rest, infer-grpc or "
                                                     "infer-http"));
           }
           flags.protocol = it->second;
           flags.protocol_name = name;
         },
         "What the server speaks: beamwright.v1 over gRPC (native) or HTTP (rest), the Open "
         "Inference Protocol of Triton and KServe over gRPC (infer-grpc) or HTTP (infer-http; "
         "--server is then its HTTP address). [default native]")
      ->type_name("NAME")
      ->group(kConnectionGroup);
  app.add_flag("--stream", flags.load.stream,
               "Calls are streams; also times the first token that can't change.")
      ->group(kLoadGroup);
  AddIntFlag(app, {"--batch", kLoadGroup, "Sources a call."}, 1, 4096, flags.load.batch);
  app.add_option(
         "--cancel",
         [&flags](const CLI::results_t& values) {
           const auto parsed = ParseCancel(values[0]);
           if (!parsed.ok()) {
             throw CLI::ValidationError("--cancel", std::string(parsed.status().message()));
           }
           flags.load.cancel_share = parsed->first;
           flags.load.cancel_after = parsed->second;
           return true;
         },
         "Give up this share of the calls, by chance, so long after their start, as users who have "
         "gone; such as 5%:20ms.")
      ->type_name("SHARE:TIME")
      ->group(kLoadGroup);
}

void AddSearchFlags(CLI::App& app, LoadFlags& flags) {
  CLI::Option* find =
      app.add_flag("--find-max-rate", flags.find_max_rate,
                   "Search for the highest rate at which --slo holds with 95 % confidence; --rate "
                   "LOW..HIGH bounds the search, --duration is the least of a trial.")
          ->group(kLoadGroup);
  app.add_option(
         "--slo",
         [&flags](const CLI::results_t& values) {
           auto parsed = ParseSlo(values[0]);
           if (!parsed.ok()) {
             throw CLI::ValidationError("--slo", std::string(parsed.status().message()));
           }
           flags.slo = *std::move(parsed);
           flags.slo_text = values[0];
           return true;
         },
         "What --find-max-rate holds the server to, such as p99<50ms,errors<0.1%,first<10ms.")
      ->type_name("CONDITIONS")
      ->needs(find)
      ->group(kLoadGroup);
}

}  // namespace

void AddLoadFlags(CLI::App& app, LoadFlags& flags) {
  AddSourceFlags(app, flags.sources);
  AddModelFlags(app, flags.load.request);
  AddConnectionFlags(app, flags.connection);
  AddIntFlag(app, {"--connections", kConnectionGroup, "Connections that calls are spread over."}, 1,
             64, flags.connection.client.connections);
  AddLoadPointsFlag(
      app, "--concurrency",
      "Calls in flight; an answer starts the next. With --rate: the most of them. Several, "
      "such as 1,2,4 or 1..128 (doubling), one after the other. [1 to 4096; default 16]",
      1, kMaxConcurrency, /*whole=*/true, flags.concurrencies)
      ->type_name("N");
  AddScheduleFlags(app, flags);
  AddCallFlags(app, flags);
  AddDurationFlag(app, {"--duration", kLoadGroup, "How long calls are started and counted."},
                  absl::Milliseconds(1), kMaxLoadDuration, flags.load.duration);
  AddWarmUpFlag(app, flags);
  AddIntFlag(app,
             {"--requests", kLoadGroup,
              "Count this many calls, then end; 0 is no limit. Without --duration, however long it "
              "takes."},
             0, kMaxCalls, flags.max_calls);
  AddSearchFlags(app, flags);
  AddMessageFlags(app, "Other options", *flags.load.request.mutable_options());
  AddLoadOutputFlags(app, flags);
}

}  // namespace beamwright::client
