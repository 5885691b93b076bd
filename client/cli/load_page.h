// The report of a load test as one HTML page: tables and charts, no script, nothing from outside.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_PAGE_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_PAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/output.pb.h"

namespace beamwright::client {

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

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_PAGE_H_
