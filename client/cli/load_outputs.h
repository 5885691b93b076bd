// What load tests are written as: for other programs, which read them back, and as one HTML page.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_OUTPUTS_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_OUTPUTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/output.pb.h"

namespace beamwright::client {

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

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_OUTPUTS_H_
