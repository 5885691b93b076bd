// How `beamwright load-test` prints what it measured, the rate that --find-max-rate found, and its
// progress.
//
// Below: what load tests are written as, for other programs and as a page.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_REPORT_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_REPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/output.pb.h"
#include "client/load/load.h"
#include "client/load/max_rate.h"

namespace beamwright::client {

// How `beamwright load-test` prints what it measured.

// "p50 1.000 ms, p90 ..., p99 ..., max ...".
std::string PercentilesText(const Percentiles& times);
void SetPercentiles(const Percentiles& times, LatencyMs& message);

// A line that marks the percentiles beyond which fewer than 100 of `num_calls` calls lie; empty if
// every percentile is certain: a p99.99 of 14 calls is their maximum.
std::string UncertainText(int64_t num_calls);

// The lines for people. `connections` is the client's.
std::string ReportText(const LoadOptions& options, int connections, const LoadReport& report);

// What a run's server is, and what its metrics gained: lines for people; empty without any.
std::string ServerText(const LoadTestReport& run);

// Percentiles, curve and the whole of a histogram into their fields.
void SetLatency(const Histogram& latency, LoadTestReport& run);

// The object of --json.
LoadTestReport ReportMessage(const LoadOptions& options, int connections, const LoadReport& report);

// How `beamwright load-test --find-max-rate` prints its result.

// "  412.0 calls/s  holds    p99<50ms: 0.41 % (0.22 to 0.71) of 1 %"
std::string TrialLine(const RateTrial& trial, const std::vector<SloClause>& slo);

// What was found, how sure that is, and what bounds it.
std::string MaxRateText(const MaxRate& found, const std::string& slo);

// The object of --json. `load` and `connections` as ReportMessage has them.
MaxRateReport MaxRateMessage(const MaxRate& found, const std::vector<SloClause>& slo,
                             const std::string& slo_text, const LoadOptions& load, int connections);

// One line on standard error that shows the progress of a load test. It shows nothing where
// standard error is not a terminal, and is gone when the test ends.

// "12 s left   1,234 calls/s   p50 1.2 ms   p99 3.4 ms   5 failed"; rate and percentiles are those
// of the timeline's last whole part, failures of the whole run.
std::string LoadProgressText(const LoadReport& report, absl::Duration left);

// For LoadOptions::on_progress. Empty where nothing is to be shown.
std::function<void(const LoadReport&, absl::Duration)> LoadProgressLine();

// Clears the line.
void EndLoadProgress();

// What load tests are written as: for other programs, which read them back, and as one HTML page.

// What load tests are written as for other programs, and read back from.

// A line of names, then one a run.
std::string LoadCsv(const LoadTestSweep& sweep);

// The distribution of latency as HdrHistogram prints it (milliseconds), which its plotters read.
std::string HdrPercentiles(const LoadTestReport& run);

// A run's distribution into a file: as HdrPercentiles, or, where the name ends in .hlog, as an
// HdrHistogram log (version 1.3) of one interval, whole. InvalidArgument if it cannot be written.
absl::Status WriteHistogram(const std::string& path, const LoadTestReport& run);

// What --json printed: one run or several. InvalidArgument names the file and what is wrong.
absl::StatusOr<LoadTestSweep> ReadSweep(const std::string& path);

// Each run and the one of the same load in `base`: rate, p50, p99 and errors, and their change.
std::string Comparison(const LoadTestSweep& base, const LoadTestSweep& sweep);

// InvalidArgument if it cannot be written.
absl::Status WriteFile(const std::string& path, const std::string& text);

// The report of a load test as one HTML page: tables and charts, no script, nothing from outside.

struct LoadPageHead {
  std::string server;
  std::string version;  // its name and version; empty: unknown
  std::string model;    // empty: the only one
  std::string setup;    // what all runs have in common
  std::string time;     // when it ran
  std::string found;    // by a search for the highest rate; empty: there was none
};

std::string LoadPage(const LoadPageHead& head, const LoadTestSweep& sweep);

// "16 calls in flight", "500 calls/s"
std::string LoadName(const LoadTestReport& run);

// Charts of lines as SVG text, for a page without scripts.

// `text` as HTML or SVG shows it literally, also within quotes.
std::string HtmlEscape(absl::string_view text);

struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending
};

struct ChartAxis {
  std::string label;
  // Powers of ten at equal distances; values must be above zero.
  bool logarithmic = false;
  // If set, ticks in the place of round numbers.
  std::vector<std::pair<double, std::string>> ticks;
};

struct Chart {
  std::string title;
  ChartAxis x, y;
  std::vector<ChartLine> lines;  // at most 8 have different colours
  bool marks = false;            // a dot at each point, with its values as a tooltip
};

// An element <svg>; classes "line0" to "line7" colour lines. Points that are not finite, or not
// above zero on a logarithmic axis, are left out.
std::string ChartSvg(const Chart& chart);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_REPORT_H_
