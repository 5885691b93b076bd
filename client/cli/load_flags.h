// The command line of `beamwright load-test`.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_FLAGS_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_FLAGS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/flags.h"
#include "client/cli/load_conditions.h"
#include "client/cli/sources.h"
#include "client/load/load.h"

namespace beamwright::client {

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
