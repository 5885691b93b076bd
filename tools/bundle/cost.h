// What a model's requests take: what `beamwright-graph cost` and `beamwright-bench decode` measure,
// in process and without RPC.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_COST_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_COST_H_

#include <array>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "include/beamwright/engine.h"
#include "ops/base/step_profile.h"

namespace beamwright::tools {

// What `beamwright-graph cost` and `beamwright-bench decode` measure: the engine in process,
// without RPC, on a model and its sources, with a number of requests always in flight.

struct DecodeCase {
  int concurrency = 1;  // requests in flight
  int threads = 1;
  int streams = 1;  // EngineOptions::num_streams
  double seconds = 3;
  v1::DecodeOptions options;
};

struct DecodeResult {
  std::string precision;  // as asked for
  int concurrency = 0;
  int threads = 0;
  int streams = 0;
  int64_t sentences = 0;  // answered while the clock ran
  int64_t tokens = 0;     // of their best hypotheses
  double seconds = 0;
  double cpu_seconds = 0;  // of all threads meanwhile: what to compare on a machine that others use
  // Of the engine's thread, idle time included, from its start on; they add up to 1.
  std::array<double, kPhaseNames.size()> shares{};
  int64_t steps = 0;
  double step_ms_median = 0;
  double step_ms_p99 = 0;

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
  double cpu_us_per_token() const { return 1e6 * cpu_seconds / static_cast<double>(tokens); }
  double sentences_per_second() const { return static_cast<double>(sentences) / seconds; }
};

// Keeps `concurrency` requests in the engine, the sources in turn, over and over. The clock starts
// when as many were answered as were sent at first, and stops with an answer after `seconds` that
// completes as many again, so that requests of one length that run in step are counted whole.
// Errors are those of the first request that fails.
absl::StatusOr<DecodeResult> BenchDecode(const std::shared_ptr<const engine::DecodeModel>& model,
                                         const std::vector<v1::Source>& sources,
                                         const DecodeCase& bench_case);

// Lines of the file, as text. NotFound or InvalidArgument (no line).
absl::StatusOr<std::vector<v1::Source>> ReadSources(const std::string& file);
// Features: every array of an .npz file, f32, is one. Errors name the file.
absl::StatusOr<std::vector<v1::Source>> ReadFeatures(const std::string& file);
// `count` sources of ids, from a fixed seed; their lengths are evenly spread over [shortest,
// longest]. The model must take ids of a vocabulary. Without an encoder all sources are empty:
// answers go on from the option target_prefix.
absl::StatusOr<std::vector<v1::Source>> RandomSources(const engine::DecodeModel& model, int count,
                                                      int shortest, int longest);

// A table, or a JSON object for each result.
std::string ResultsText(const std::vector<DecodeResult>& results);
std::string ResultsJson(const std::vector<DecodeResult>& results);

// What `beamwright-graph cost` does: measures what a request of a model holds and takes, in the
// form that `beamwright capacity` reads. Rates are those of a core that has nothing else to do: by
// CPU time, not by the clock, without RPC.

struct CostFlags {
  std::string model;    // folder: a bundle, or a model, whose newest version is taken
  std::string sources;  // file with one source a line, as text
  int beam_size = 0;    // 0: the model's default
  std::vector<int> concurrency = {1, 2, 4, 8, 16, 32};
  double seconds = 3;  // for each number in flight
};

// An error names what cannot be read, or the first request that fails.
absl::Status Cost(const CostFlags& flags, std::ostream& output);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_COST_H_
