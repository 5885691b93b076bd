// beamwright capacity: how many replicas a load needs, from what one of them was measured to do.
// Asks no server.
//
// CurveOf makes a service curve (calls a second by calls in flight) from the points that load-test
// measured. For each period of the traffic, ReplicasFor finds the fewest replicas that keep the
// goal, by simulating the queue of one replica (client/load/max_rate.cc); PrintPeriod prints the
// usual state, with the spare replicas, and the state without them.
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/command.h"
#include "client/cli/flags.h"
#include "client/load/max_rate.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

constexpr char kTrafficGroup[] = "Traffic";
constexpr char kReplicaGroup[] = "One replica";
constexpr double kMaxTotalRate = 1e9;

struct CapacityFlags {
  std::vector<std::string> points;
  double rate = 0;
  std::string traffic;
  absl::Duration within = absl::ZeroDuration();
  double share = 0.99;
  double spread = 0.3;
  int beam_size = 4;
  int max_rows = 1024;
  int threads = 1;
  int spare = 1;
};

struct Period {
  std::string name;
  double rate = 0;
};

absl::StatusOr<ServiceCurve> CurveOf(const std::vector<std::string>& texts) {
  std::vector<ServicePoint> points;
  for (const std::string& text : texts) {
    const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
    ServicePoint point;
    if (parts.size() != 2 || !absl::SimpleAtod(parts[0], &point.in_flight) ||
        !absl::SimpleAtod(parts[1], &point.per_second)) {
      return Invalid("--point: '", text,
                     "' is not a number in flight, a colon and a rate, such as 8:420");
    }
    points.push_back(point);
  }
  return ServiceCurve::Make(std::move(points));
}

// Lines of a name and a rate; empty ones and those that begin with # are passed over.
absl::StatusOr<std::vector<Period>> ReadTraffic(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return Invalid("--traffic: cannot read '", path, "'");
  }
  std::vector<Period> periods;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') {
      continue;
    }
    Period period{.name = words[0]};
    if (words.size() != 2 || !absl::SimpleAtod(words[1], &period.rate) || !(period.rate > 0) ||
        period.rate > kMaxTotalRate) {
      return Invalid("--traffic: line ", number, " of ", path,
                     " is not a name and calls a second above 0, such as '09:00 1200'");
    }
    periods.push_back(std::move(period));
  }
  if (periods.empty()) {
    return Invalid("--traffic: ", path, " has no line");
  }
  return periods;
}

// The smallest power of two that holds `rows`.
int RowsFor(int rows) {
  int result = 1;
  while (result < rows) {
    result *= 2;
  }
  return result;
}

absl::Status PrintPeriod(const ServiceCurve& curve, const CapacityFlags& flags,
                         const Period& period, int& most_rows, int& most_replicas) {
  ReplicaLoad load{.rate = period.rate,
                   .max_in_flight = flags.max_rows / flags.beam_size,
                   .spread = flags.spread};
  const Goal goal{.seconds = absl::ToDoubleSeconds(flags.within), .share = flags.share};
  BW_ASSIGN_OR_RETURN(const int needed, ReplicasFor(curve, load, goal));
  const int replicas = needed + flags.spare;
  load.rate = period.rate / needed;
  const SimulatedReplica worst = SimulateReplica(curve, load);
  load.rate = period.rate / replicas;
  const SimulatedReplica usual = SimulateReplica(curve, load);
  std::cout << absl::StrFormat("%-12s %10.0f %9d %8.0f %% %9.1f %9.1f %9.1f\n", period.name,
                               period.rate, replicas, 100 * load.rate / curve.MostPerSecond(),
                               1e3 * usual.Within(0.5), 1e3 * usual.Within(flags.share),
                               1e3 * worst.Within(flags.share));
  most_rows = std::max(most_rows, worst.in_flight * flags.beam_size);
  most_replicas = std::max(most_replicas, replicas);
  return absl::OkStatus();
}

int Capacity(const CLI::App& command, const CapacityFlags& flags) {
  const auto curve = CurveOf(flags.points);
  if (!curve.ok()) {
    return UsageError(command, curve.status().message());
  }
  if (flags.max_rows < flags.beam_size) {
    return UsageError(command, absl::StrCat("--max-rows is ", flags.max_rows,
                                            ", less than one call's beam of ", flags.beam_size));
  }
  std::vector<Period> periods = {{.name = "all", .rate = flags.rate}};
  if (!flags.traffic.empty()) {
    auto read = ReadTraffic(flags.traffic);
    if (!read.ok()) {
      return UsageError(command, read.status().message());
    }
    periods = *std::move(read);
  } else if (flags.rate == 0) {
    return UsageError(command, "there is no load: give --rate or --traffic");
  }
  const std::string share = absl::StrFormat("p%g", 100 * flags.share);
  std::cout << absl::StrFormat("%-12s %10s %9s %10s %9s %9s %9s\n", "period", "calls/s", "replicas",
                               "busy", "p50 ms", share + " ms", "fewer ms");
  int rows = 0;
  int replicas = 0;
  for (const Period& period : periods) {
    const absl::Status printed = PrintPeriod(*curve, flags, period, rows, replicas);
    if (!printed.ok()) {
      return Failure(command, absl::StrCat(period.name, ": ", printed.message()));
    }
  }
  std::cout << "\nat most " << replicas << " replicas, " << replicas * flags.threads
            << " cores; --max-rows " << RowsFor(rows) << " suffices (" << rows
            << " in use)\nbusy: of what a replica can do; fewer: " << share << " with "
            << flags.spare << " of them gone\n";
  return kExitOk;
}

}  // namespace

Command AddCapacityCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "capacity", "Compute how many replicas a load needs, from the measurements of one.");
  auto flags = std::make_shared<CapacityFlags>();
  app->add_option("--point", flags->points,
                  "Calls in flight and calls a second that one replica answers then, as 'load-test "
                  "--concurrency' measures them: 8:420. Give some, up to where the rate stays.")
      ->required()
      ->type_name("N:CALLS/S")
      ->group(kReplicaGroup);
  AddIntFlag(*app, {"--threads", kReplicaGroup, "Cores that it had."}, 1, 1024, flags->threads);
  AddIntFlag(*app, {"--max-rows", kReplicaGroup, "Its --max-rows."}, 1, 65536, flags->max_rows);
  AddIntFlag(*app, {"--beam-size", kReplicaGroup, "Rows of a call."}, 1, 256, flags->beam_size);
  CLI::Option* rate =
      app->add_option("--rate", flags->rate, "Calls a second, of all clients together. [above 0]")
          ->type_name("CALLS/S")
          ->check(CLI::Range(1e-3, kMaxTotalRate).description(""))
          ->group(kTrafficGroup);
  app->add_option("--traffic", flags->traffic,
                  "File of lines with a name and calls a second, such as '09:00 1200'.")
      ->type_name("FILE")
      ->excludes(rate)
      ->group(kTrafficGroup);
  app->add_option("--spread", flags->spread,
                  "Standard deviation of the calls' cost over its mean. [0 to 0.57; default 0.3]")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 0.57).description(""))
      ->group(kTrafficGroup);
  AddDurationFlag(*app, {"--within", "Goal", "Time for an answer."}, absl::Milliseconds(1),
                  absl::Hours(1), flags->within)
      ->required();
  app->add_option("--share", flags->share,
                  "Share of the calls that are answered in that time. [0.5 to 0.999; default 0.99]")
      ->type_name("SHARE")
      ->check(CLI::Range(0.5, 0.999).description(""))
      ->group("Goal");
  AddIntFlag(*app, {"--spare", "Goal", "Replicas that may be gone without missing the goal."}, 0,
             1000, flags->spare);
  app->footer(
      "Example:\n"
      "  beamwright capacity --point 1:150 --point 8:520 --point 32:640 --rate 3000 --within "
      "100ms\n"
      "Asks no server: it simulates the queue of a replica (docs/scaling.md).");
  return {app, [app, flags] { return Capacity(*app, *flags); }};
}

}  // namespace beamwright::client
