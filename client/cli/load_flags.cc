// Flags and files of `load`. The command line goes in; LoadFlags and, with --mix, a list of calls
// come out.
//
// 1. AddLoadFlags declares the flags by group: where to connect, what calls are (AddCallFlags),
//    when they are sent (AddScheduleFlags, AddWarmUpFlag), the search for the highest rate
//    (AddSearchFlags), what is written (AddLoadOutputFlags).
// 2. ParseLoadPoints reads a list of loads: "4", "1,2,8", or a range that doubles: "100..900" is
//    100, 200, 400, 800, 900.
// 3. ReadMix reads a file with a JSON object on each line. ParseLine checks the members against
//    each other, CallOf makes the call, `times` repeats it, and calls are sorted by `at` where the
//    file is a trace.
//
//   {"source": "hello", "options": {"beam_size": 5}, "priority": 2, "times": 3}
//   {"ids": [5, 6, 7], "at": "20ms", "hypotheses": [{"tokens": [9, 2]}]}
//
// Errors name the flag, or the line of the file and the member.
#include "client/cli/load_flags.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cli/answers.h"
#include "client/cli/flags.h"
#include "client/cli/output.pb.h"
#include "client/load/infer_message.h"
#include "google/protobuf/util/json_util.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::client {
namespace {

constexpr size_t kMostMixedCalls = 1'000'000;
constexpr int kMaxTimes = 1000;

absl::StatusOr<MixLine> ParseLine(const std::string& text) {
  BW_RETURN_IF_ERROR(CheckUtf8(text));
  MixLine line;
  if (const auto status = google::protobuf::util::JsonStringToMessage(text, &line); !status.ok()) {
    const std::string message(status.message());  // then come the text and a mark beneath it
    return Invalid(Printable(message.substr(0, message.find('\n'))));
  }
  if ((line.source().empty() ? 0 : 1) + (line.ids().empty() ? 0 : 1) + (line.has_infer() ? 1 : 0) !=
      1) {
    return Invalid("it must have one of source, ids and infer");
  }
  if (line.has_infer() && (line.has_options() || !line.hypotheses().empty())) {
    return Invalid("a line with `infer` cannot have `options` or `hypotheses`");
  }
  if (line.priority() < 0 || line.priority() > 3) {
    return Invalid("priority is ", line.priority(), "; 1 to 3 are allowed");
  }
  if (line.times() < 0 || line.times() > kMaxTimes) {
    return Invalid("times is ", line.times(), "; 1 to ", kMaxTimes, " are allowed");
  }
  return line;
}

// Reads a duration of a line; an empty text leaves `duration` as it is.
absl::Status ReadDuration(const char* name, const std::string& text, absl::Duration least,
                          absl::Duration& duration) {
  if (!text.empty() &&
      (!absl::ParseDuration(text, &duration) || duration < least || duration > kMaxLoadDuration)) {
    return Invalid(name, " \"", Printable(text), "\" is not a duration from ",
                   absl::FormatDuration(least), " to ", absl::FormatDuration(kMaxLoadDuration),
                   ", such as 50ms");
  }
  return absl::OkStatus();
}

absl::StatusOr<MixedCall> CallOf(MixLine line) {
  MixedCall call;
  if (line.has_infer()) {
    auto infer = InferRequestOf(line.infer());
    BW_RETURN_IF_ERROR(Annotate(infer.status(), "infer"));
    call.infer = std::make_shared<const inference::ModelInferRequest>(*std::move(infer));
  } else if (line.ids().empty()) {
    call.source.set_text(line.source());
  } else {
    *call.source.mutable_ids()->mutable_ids() = line.ids();
  }
  call.options = std::move(*line.mutable_options());
  call.settings.priority = line.priority();
  call.settings.tenant = line.tenant();
  constexpr absl::Duration kLeast = absl::Milliseconds(1);
  BW_RETURN_IF_ERROR(ReadDuration("timeout", line.timeout(), kLeast, call.timeout));
  BW_RETURN_IF_ERROR(
      ReadDuration("cancel_after", line.cancel_after(), kLeast, call.settings.cancel_after));
  BW_RETURN_IF_ERROR(ReadDuration("at", line.at(), absl::ZeroDuration(), call.at));
  if (!line.hypotheses().empty()) {
    call.expected = line.hypotheses(0);
  }
  return call;
}

// Which loads a load test runs one after the other: "4", "1,2,4..128", "100..2000".

inline constexpr size_t kMaxLoadPoints = 64;

absl::StatusOr<double> Point(absl::string_view text, double minimum, double maximum) {
  double value = 0;
  // The negation: NaN is refused too.
  if (!absl::SimpleAtod(text, &value) || !(value >= minimum && value <= maximum)) {
    return Invalid("\"", Printable(text), "\" is not a number from ", minimum, " to ", maximum,
                   ", a list such as 1,2,4, or a range such as 4..128");
  }
  return value;
}

// Numbers with commas between; A..B doubles from A on and ends with B, which must be greater.
// InvalidArgument says what is wrong, also with a number outside of [minimum, maximum].
absl::StatusOr<std::vector<double>> ParseLoadPoints(absl::string_view text, double minimum,
                                                    double maximum) {
  std::vector<double> points;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(piece, absl::MaxSplits("..", 1));
    BW_ASSIGN_OR_RETURN(const double first, Point(ends[0], minimum, maximum));
    BW_ASSIGN_OR_RETURN(const double last, Point(ends.back(), minimum, maximum));
    if (ends.size() == 2 && last <= first) {
      return Invalid("\"", Printable(piece), "\" ends before it begins");
    }
    for (double value = first; value < last && points.size() <= kMaxLoadPoints; value *= 2) {
      points.push_back(value);
    }
    points.push_back(last);
    if (points.size() > kMaxLoadPoints) {
      return Invalid("more than ", kMaxLoadPoints, " loads one after the other");
    }
  }
  return points;
}

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

absl::StatusOr<Mix> ReadMix(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return Invalid("cannot read ", Printable(path));
  }
  Mix mix;
  std::vector<MixedCall>& calls = mix.calls;
  int64_t number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.empty()) {
      continue;
    }
    const std::string where = absl::StrCat("line ", number, " of ", Printable(path));
    auto line = ParseLine(text);
    BW_RETURN_IF_ERROR(Annotate(line.status(), where));
    const int times = std::max(1, line->times());
    if (!calls.empty() && line->at().empty() == mix.timed) {
      return Invalid(where, ": either every line says when its call is due (at), or none does");
    }
    mix.timed = !line->at().empty();
    (line->has_infer() ? mix.has_infer : mix.has_sources) = true;
    auto call = CallOf(*std::move(line));
    BW_RETURN_IF_ERROR(Annotate(call.status(), where));
    calls.insert(calls.end(), static_cast<size_t>(times), *call);
    if (calls.size() > kMostMixedCalls) {
      return Invalid(Printable(path), " has more than ", WithCommas(kMostMixedCalls), " calls");
    }
  }
  if (file.bad() || calls.empty()) {
    return Invalid(Printable(path), file.bad() ? " could not be read to its end" : " has no call");
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const MixedCall& a, const MixedCall& b) { return a.at < b.at; });
  return mix;
}

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
