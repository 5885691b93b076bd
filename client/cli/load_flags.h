// The command line of `beamwright load-test`.
//
// Its conditions, --fail-if and --slo, come first.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_FLAGS_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_FLAGS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/flags.h"
#include "client/cli/output.pb.h"
#include "client/cli/sources.h"
#include "client/load/load.h"
#include "client/load/max_rate.h"

namespace beamwright::client {

// --fail-if: what must not come out of a load test, such as "p99>50ms,errors>1%"; and --slo: what
// must, such as "p99<50ms,errors<0.1%".

struct LoadCondition {
  std::string text;  // as it was given
  std::string name;  // of the figure
  double (*value)(const LoadTestReport&) = nullptr;
  bool below = false;  // fails below the limit; otherwise above it
  bool equal = false;  // fails at the limit, too
  double limit = 0;    // milliseconds, a share or calls a second
};

// InvalidArgument names the piece that is not a condition and what is allowed.
absl::StatusOr<std::vector<LoadCondition>> ParseConditions(absl::string_view text);

// A promise that FindMaxRate can show: percentiles and `first` below a time, errors below a share
// above 0.
absl::StatusOr<std::vector<SloClause>> ParseSlo(absl::string_view text);

// InvalidArgument for a condition on first tokens without --stream: it would hold
// whatever the server does.
absl::Status CheckFirstTokens(const std::vector<LoadCondition>& conditions,
                              const std::vector<SloClause>& slo, bool stream);

// Of the first condition that holds, what it is and what was measured; empty: none does. A run
// without an answer fails every condition on latency.
std::string FailedCondition(const std::vector<LoadCondition>& conditions,
                            const LoadTestReport& report);

// --mix: calls of different kinds, a JSON object a line (MixLine in client/cli/output.proto). A
// bundle's golden.jsonl is such a file.
struct Mix {
  std::vector<MixedCall> calls;
  // Each line says when its call is due: the file is a trace.
  bool timed = false;
  // Some line is, or is not, a request of the Open Inference Protocol.
  bool has_infer = false, has_sources = false;
};

// InvalidArgument names the file, the line and what is wrong with it. Calls of a trace come back in
// the order in which they are due.
absl::StatusOr<Mix> ReadMix(const std::string& path);

struct LoadFlags {
  SourceFlags sources;
  ConnectionFlags connection;
  Protocol protocol = Protocol::kNative;
  std::string protocol_name = "native";
  LoadOptions load;
  bool warm_until_steady = false;
  absl::Duration good_within = absl::ZeroDuration();
  int max_calls = 0;
  std::vector<double> concurrencies = {16};
  std::vector<double> rates;  // none: closed loop
  bool find_max_rate = false;
  std::vector<SloClause> slo;
  std::string slo_text;
  bool json = false;
  bool csv = false;
  std::string report, histogram, compare, mix, metrics;
  std::vector<LoadCondition> conditions;
};

// `flags` must outlive the parsing.
void AddLoadFlags(CLI::App& app, LoadFlags& flags);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_FLAGS_H_
