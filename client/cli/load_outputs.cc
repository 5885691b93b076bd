// The files that a load test writes and reads: CSV, one line a run; HdrHistogram's text of
// percentiles and its log (.hlog), for plots and tools of others; and JSON of an earlier run
// (ReadSweep), with which Comparison compares, run by run of the same rate and concurrency.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/cli/answers.h"
#include "client/cli/load_report.h"
#include "google/protobuf/util/json_util.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

// The run of the base with the same rate and concurrency; null without one.
const LoadTestReport* SameLoad(const LoadTestSweep& base, const LoadTestReport& run) {
  const auto found =
      std::find_if(base.runs().begin(), base.runs().end(), [&](const LoadTestReport& each) {
        return each.rate() == run.rate() && each.concurrency() == run.concurrency();
      });
  return found == base.runs().end() ? nullptr : &*found;
}

std::string Change(double before, double now) {
  return before > 0 ? absl::StrFormat("%.4g -> %.4g (%+.1f %%)", before, now,
                                      100 * (now - before) / before)
                    : absl::StrFormat("%.4g -> %.4g", before, now);
}

}  // namespace

std::string LoadCsv(const LoadTestSweep& sweep) {
  std::string csv =
      "concurrency,rate,batch,elapsed_seconds,answered_calls,calls_per_second,good_calls_per_"
      "second,"
      "sources_per_second,tokens_per_second,p50_ms,p90_ms,p99_ms,p99_9_ms,p99_99_ms,max_ms,mean_ms,"
      "deviation_ms,error_share,skipped_calls,client_cpus,valid\n";
  for (const LoadTestReport& run : sweep.runs()) {
    const LatencyMs& ms = run.latency_ms();
    absl::StrAppendFormat(&csv, "%d,%g,%d,%.3f,%d,%.3f,%.3f,%.3f,%.3f,", run.concurrency(),
                          run.rate(), run.batch(), run.elapsed_seconds(), run.answered_calls(),
                          run.calls_per_second(), run.good_calls_per_second(),
                          run.sources_per_second(), run.tokens_per_second());
    absl::StrAppendFormat(&csv, "%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.6f,%d,%.3f,%s\n",
                          ms.p50(), ms.p90(), ms.p99(), ms.p99_9(), ms.p99_99(), ms.max(),
                          ms.mean(), ms.deviation(), run.error_share(), run.skipped_calls(),
                          run.client_cpus(), run.invalid().empty() ? "yes" : "no");
  }
  return csv;
}

// The text that HdrHistogram's tools print and plot: value, percentile, count, 1 / (1 -
// percentile). Values are milliseconds. A line of it, of 1,000 calls:
//
//        6.514 0.990000000000        990         100.00
std::string HdrPercentiles(const LoadTestReport& run) {
  std::string text = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n";
  for (const CurvePoint& point : run.latency_curve()) {
    absl::StrAppendFormat(&text, "%12.3f %2.12f %10.0f", point.ms(), point.fraction(),
                          point.count());
    absl::StrAppend(&text, point.fraction() < 1
                               ? absl::StrFormat(" %14.2f\n", 1 / (1 - point.fraction()))
                               : "\n");
  }
  const double count = run.latency_curve().empty() ? 0 : run.latency_curve().rbegin()->count();
  absl::StrAppendFormat(&text, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n",
                        run.latency_ms().mean(), run.latency_ms().deviation());
  absl::StrAppendFormat(&text, "#[Max     = %12.3f, Total count    = %12.0f]\n",
                        run.latency_ms().max(), count);
  // Its own: buckets are doublings, each with 1,024 parts (client/load/histogram.h).
  return text + "#[Buckets =           22, SubBuckets     =         1024]\n";
}

// By the file's name: HdrHistogram's log for its tools, else the text of percentiles.
absl::Status WriteHistogram(const std::string& path, const LoadTestReport& run) {
  if (!absl::EndsWith(path, ".hlog")) {
    return WriteFile(path, HdrPercentiles(run));
  }
  // Values are microseconds; the interval's greatest is in milliseconds.
  return WriteFile(
      path, absl::StrFormat("#[Histogram log format version 1.3]\n"
                            "#[MaxValueDivisor: 1000.0]\n"
                            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\","
                            "\"Interval_Compressed_Histogram\"\n"
                            "0.000,%.3f,%.3f,%s\n",
                            run.elapsed_seconds(), run.latency_ms().max(), run.latency_hdr()));
}

// The JSON of several loads, or of one, which becomes a sweep of one.
absl::StatusOr<LoadTestSweep> ReadSweep(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string json(std::istreambuf_iterator<char>(file), {});
  if (!file || json.empty()) {
    return Invalid("cannot read ", Printable(path));
  }
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of other versions
  LoadTestSweep sweep;
  LoadTestReport run;
  const auto as_sweep = google::protobuf::util::JsonStringToMessage(json, &sweep, options);
  if (as_sweep.ok() && !sweep.runs().empty()) {
    return sweep;
  }
  const auto as_run = google::protobuf::util::JsonStringToMessage(json, &run, options);
  if (!as_run.ok() || run.concurrency() <= 0) {
    return Invalid(Printable(path), " is not what 'beamwright load-test --json' prints",
                   as_run.ok() ? "" : absl::StrCat(": ", Printable(std::string(as_run.message()))));
  }
  LoadTestSweep one;
  *one.add_runs() = run;
  return one;
}

std::string Comparison(const LoadTestSweep& base, const LoadTestSweep& sweep) {
  std::string text = absl::StrCat(Bold("compared"), "\n");
  for (const LoadTestReport& run : sweep.runs()) {
    const LoadTestReport* before = SameLoad(base, run);
    if (before == nullptr) {
      absl::StrAppend(&text, "  ", LoadName(run), ": not in the base\n");
      continue;
    }
    absl::StrAppend(
        &text, "  ", LoadName(run), ": calls/s ",
        Change(before->calls_per_second(), run.calls_per_second()), ", p50 ms ",
        Change(before->latency_ms().p50(), run.latency_ms().p50()), ", p99 ms ",
        Change(before->latency_ms().p99(), run.latency_ms().p99()), ", errors ",
        absl::StrFormat("%.2f %% -> %.2f %%", 100 * before->error_share(), 100 * run.error_share()),
        run.invalid().empty() && before->invalid().empty() ? "" : ", INVALID", "\n");
  }
  return text;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? absl::OkStatus() : Invalid("cannot write ", Printable(path));
}

// The load test as one HTML page without scripts: LoadPage writes the head, a table of the runs,
// charts and errors.
//
// 1. Sections: latency against throughput, latency by percentile (x is 1 / (1 - p), logarithmic, so
//    that 90, 99 and 99.9 % are equally far apart), throughput and p99 over time, errors.
// 2. ChartSvg draws a chart as SVG: a Scale for each axis is widened by all points (Include),
//    rounded to whole steps or powers of ten (Settle), and then maps values to the page (At). Grid
//    draws ticks, LineSvg a line with optional dots.
//
// All text is escaped (HtmlEscape), and the page's policy allows nothing but its own style: what a
// server reports cannot run in the reader's browser.

namespace {

// Colours that people who confuse red and green can distinguish (Okabe and Ito), lighter at night.
constexpr char kHead[] = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Load test</title>
<style>
:root { color-scheme: light dark; --text: #1b1f24; --soft: #59636e; --edge: #d5dae0; --bad: #b3261e;
  --c0: #0072b2; --c1: #d55e00; --c2: #007a5a; --c3: #9a4c7f; --c4: #8a6d00; --c5: #2b8cbe; --c6: #555; --c7: #a63603; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e8eb; --soft: #a0a8b2; --edge: #3a424c; --bad: #ff8a80;
  --c0: #56b4e9; --c1: #ff9d5c; --c2: #3fd0a4; --c3: #e59bc8; --c4: #f0e442; --c5: #8cc8ff; --c6: #bbb; --c7: #ffb38a; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); max-width: 68rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; } dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; } code { font-size: .9em; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--edge); }
th:first-child, td:first-child { text-align: left; } td.text { text-align: left; white-space: normal; }
.chart { overflow-x: auto; } .chart svg { width: 100%; min-width: 34rem; height: auto; } svg text { font-size: 12px; fill: var(--soft); }
.grid { stroke: var(--edge); stroke-width: 1; } .line { fill: none; stroke-width: 2; }
.line0 { stroke: var(--c0); } .line1 { stroke: var(--c1); } .line2 { stroke: var(--c2); } .line3 { stroke: var(--c3); }
.line4 { stroke: var(--c4); } .line5 { stroke: var(--c5); } .line6 { stroke: var(--c6); } .line7 { stroke: var(--c7); }
circle { fill: Canvas; stroke-width: 2; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; list-style: none; color: var(--soft); }
.legend svg { width: 1.5rem; height: .6rem; } .bad { color: var(--bad); font-weight: 600; } .note { color: var(--soft); }
</style>
</head>
<body>
)";

// A chart with a legend of its lines and a sentence below it.
std::string Section(const Chart& chart, absl::string_view note) {
  std::string html = absl::StrCat("<h2>", HtmlEscape(chart.title), "</h2>\n<div class=\"chart\">",
                                  ChartSvg(chart), "</div>\n", "<ul class=\"legend\">\n");
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    absl::StrAppend(&html,
                    "<li><svg viewBox=\"0 0 24 10\" aria-hidden=\"true\"><path class=\"line line",
                    i % 8, "\" d=\"M0 5H24\"/></svg> ", HtmlEscape(chart.lines[i].name), "</li>\n");
  }
  return absl::StrCat(html, "</ul>\n<p class=\"note\">", HtmlEscape(note), "</p>\n");
}

std::string Runs(const LoadTestSweep& sweep) {
  std::string html =
      "<h2>Runs</h2>\n<div class=\"scroll\"><table>\n<tr><th>load</th><th>calls/s</th>"
      "<th>sources/s</th><th>p50 ms</th><th>p90 ms</th><th>p99 ms</th><th>p99.9 ms</th><th>max "
      "ms</th>"
      "<th>mean ms</th><th>errors</th><th>client CPUs</th></tr>\n";
  for (const LoadTestReport& run : sweep.runs()) {
    const LatencyMs& ms = run.latency_ms();
    absl::StrAppendFormat(
        &html,
        "<tr><td>%s</td><td>%.1f</td><td>%.1f</td><td>%.3f</td><td>%.3f</td><td>%.3f</td>"
        "<td>%.3f</td><td>%.3f</td><td>%.3f</td><td>%.2f %%</td><td>%.2f</td></tr>\n",
        HtmlEscape(LoadName(run)), run.calls_per_second(), run.sources_per_second(), ms.p50(),
        ms.p90(), ms.p99(), ms.p99_9(), ms.max(), ms.mean(), 100 * run.error_share(),
        run.client_cpus());
    if (!run.invalid().empty()) {
      absl::StrAppend(&html, "<tr><td colspan=\"11\" class=\"text bad\">Invalid: ",
                      HtmlEscape(run.invalid()), "</td></tr>\n");
    }
  }
  return html + "</table></div>\n";
}

std::string LatencyAgainstThroughput(const LoadTestSweep& sweep) {
  Chart chart;
  chart.title = "Latency against throughput";
  chart.x.label = "calls answered a second";
  chart.y = {"ms", /*logarithmic=*/true};
  chart.marks = true;
  chart.lines = {{"p50"}, {"p90"}, {"p99"}};
  for (const LoadTestReport& run : sweep.runs()) {
    chart.lines[0].points.emplace_back(run.calls_per_second(), run.latency_ms().p50());
    chart.lines[1].points.emplace_back(run.calls_per_second(), run.latency_ms().p90());
    chart.lines[2].points.emplace_back(run.calls_per_second(), run.latency_ms().p99());
  }
  return Section(chart, "One dot a run, in the order of the runs.");
}

std::string Distribution(const LoadTestSweep& sweep) {
  Chart chart;
  chart.title = "Latency by percentile";
  chart.x = {"percentile",
             /*logarithmic=*/true,
             {{1, "0"},
              {2, "50"},
              {10, "90"},
              {100, "99"},
              {1e3, "99.9"},
              {1e4, "99.99"},
              {1e5, "99.999"},
              {1e6, "99.9999"}}};
  chart.y = {"ms", /*logarithmic=*/true};
  for (const LoadTestReport& run : sweep.runs()) {
    ChartLine& line = chart.lines.emplace_back();
    line.name = LoadName(run);
    for (const CurvePoint& point : run.latency_curve()) {
      line.points.emplace_back(1 / (1 - point.fraction()), point.ms());
    }
  }
  return Section(chart, "Of calls with an answer. With a rate, from when a call was due.");
}

// Two charts over the same time, throughput and p99, from the parts of each run.
std::string Timelines(const LoadTestSweep& sweep) {
  Chart rate, latency;
  rate.title = "Throughput over time";
  rate.y.label = "calls answered a second";
  latency.title = "p99 over time";
  latency.y = {"ms", /*logarithmic=*/true};
  rate.x.label = latency.x.label = "seconds since the warm-up";
  for (const LoadTestReport& run : sweep.runs()) {
    ChartLine& calls = rate.lines.emplace_back();
    ChartLine& p99 = latency.lines.emplace_back();
    calls.name = p99.name = LoadName(run);
    for (const LoadTestInterval& part : run.timeline()) {
      // The last part is left out if the run ended within it.
      const double end = part.begin_seconds() + part.length_seconds();
      const double middle = part.begin_seconds() + part.length_seconds() / 2;
      if (end <= run.elapsed_seconds() * 1.001) {
        calls.points.emplace_back(middle, part.answered_calls() / part.length_seconds());
        p99.points.emplace_back(middle, part.p99_ms());
      }
    }
  }
  return Section(rate, "One point a part of the run.") +
         Section(latency, "Of the calls answered in each part.");
}

std::string Errors(const LoadTestSweep& sweep) {
  std::string rows;
  for (const LoadTestReport& run : sweep.runs()) {
    const auto add = [&](absl::string_view what, int64_t count) {
      absl::StrAppend(&rows, "<tr><td>", HtmlEscape(LoadName(run)), "</td><td class=\"text\">",
                      HtmlEscape(what), "</td><td>", WithCommas(count), "</td></tr>\n");
    };
    // Sorted: protobuf's maps have no stable order.
    std::vector<std::pair<std::string, int>> codes(run.failed_calls().begin(),
                                                   run.failed_calls().end());
    std::sort(codes.begin(), codes.end());
    for (const auto& [code, count] : codes) {
      add(absl::StrCat("calls: ", code), count);
    }
    if (run.skipped_calls() > 0) {
      add("calls that were due and never sent", run.skipped_calls());
    }
    if (!run.first_failure().empty()) {
      absl::StrAppend(&rows, "<tr><td></td><td class=\"text\" colspan=\"2\">first: ",
                      HtmlEscape(Printable(run.first_failure())), "</td></tr>\n");
    }
  }
  return rows.empty() ? "<h2>Errors</h2>\n<p>None.</p>\n"
                      : absl::StrCat(
                            "<h2>Errors</h2>\n<div class=\"scroll\"><table>\n<tr><th>load</th>"
                            "<th>what</th><th>count</th></tr>\n",
                            rows, "</table></div>\n");
}

}  // namespace

std::string LoadName(const LoadTestReport& run) {
  if (run.replay()) {
    return "trace";
  }
  return run.rate() > 0 ? absl::StrFormat("%g calls/s", run.rate())
                        : absl::StrCat(run.concurrency(), " in flight");
}

std::string LoadPage(const LoadPageHead& head, const LoadTestSweep& sweep) {
  std::string html = kHead;
  const auto item = [&](absl::string_view name, absl::string_view value) {
    if (!value.empty()) {
      absl::StrAppend(&html, "<dt>", name, "</dt><dd>", HtmlEscape(Printable(value)), "</dd>\n");
    }
  };
  absl::StrAppend(&html, "<h1>Load test of ", HtmlEscape(Printable(head.server)), "</h1>\n<dl>\n");
  item("server", head.version);
  item("model", head.model);
  item("time", head.time);
  item("load", head.setup);
  item("found", head.found);
  absl::StrAppend(&html, "</dl>\n", Runs(sweep));
  if (sweep.runs_size() > 1) {
    absl::StrAppend(&html, LatencyAgainstThroughput(sweep));
  }
  return absl::StrCat(html, Distribution(sweep), Timelines(sweep), Errors(sweep),
                      "</body>\n</html>\n");
}

namespace {

constexpr double kWidth = 720, kHeight = 320;
constexpr double kLeft = 70, kRight = 20, kTop = 16, kBottom = 46;
constexpr size_t kColours = 8;

// One axis with its place on the page.
class Scale {
 public:
  Scale(const ChartAxis& axis, double page_low, double page_high)
      : axis_(axis), page_low_(page_low), page_high_(page_high) {}

  bool Shows(double value) const {
    return std::isfinite(value) && (!axis_.logarithmic || value > 0);
  }

  void Include(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }

  // After the last Include.
  void Settle() {
    if (low_ > high_) {
      low_ = axis_.logarithmic ? 1 : 0;
      high_ = 10;
    }
    if (axis_.logarithmic && axis_.ticks.empty()) {
      low_ = std::pow(10, std::floor(std::log10(low_)));
      high_ = std::pow(10, std::ceil(std::log10(high_ * 1.0001)));
    } else if (!axis_.logarithmic) {
      low_ = std::min(low_, 0.0);
      const double step = Step();
      high_ = std::max(step, std::ceil(high_ / step) * step);
    }
  }

  double At(double value) const {
    const double share = axis_.logarithmic ? std::log(value / low_) / std::log(high_ / low_)
                                           : (value - low_) / (high_ - low_);
    return page_low_ + (std::isfinite(share) ? share : 0) * (page_high_ - page_low_);
  }

  std::vector<std::pair<double, std::string>> Ticks() const {
    std::vector<std::pair<double, std::string>> ticks;
    if (!axis_.ticks.empty()) {
      std::copy_if(axis_.ticks.begin(), axis_.ticks.end(), std::back_inserter(ticks),
                   [&](const auto& tick) { return tick.first >= low_ && tick.first <= high_; });
      return ticks;
    }
    for (double value = low_; value <= high_ * 1.0001 && ticks.size() < 50;
         value = axis_.logarithmic ? value * 10 : value + Step()) {
      ticks.emplace_back(value, absl::StrFormat("%.6g", value));
    }
    return ticks;
  }

 private:
  // The distance of ticks: a round number that gives five to ten of them.
  double Step() const {
    const double rough = std::max(high_ - low_, 1e-9) / 5;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    const double times = rough / power;
    return power * (times < 2 ? 1 : times < 5 ? 2 : 5);
  }

  const ChartAxis& axis_;
  const double page_low_, page_high_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

std::string Grid(const Chart& chart, const Scale& x, const Scale& y) {
  std::string svg;
  for (const auto& [value, text] : x.Ticks()) {
    absl::StrAppendFormat(&svg,
                          "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                          "text-anchor=\"middle\">%s</text>\n",
                          x.At(value), kTop, kHeight - kBottom, x.At(value), kHeight - kBottom + 16,
                          HtmlEscape(text));
  }
  for (const auto& [value, text] : y.Ticks()) {
    absl::StrAppendFormat(&svg,
                          "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                          "text-anchor=\"end\">%s</text>\n",
                          kLeft, y.At(value), kWidth - kRight, kLeft - 6, y.At(value) + 4,
                          HtmlEscape(text));
  }
  absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
                        (kLeft + kWidth - kRight) / 2, kHeight - 8, HtmlEscape(chart.x.label));
  absl::StrAppendFormat(&svg,
                        "<text transform=\"translate(14 %.1f) rotate(-90)\" "
                        "text-anchor=\"middle\">%s</text>\n",
                        (kTop + kHeight - kBottom) / 2, HtmlEscape(chart.y.label));
  return svg;
}

std::string LineSvg(const ChartLine& line, size_t colour, bool marks, const Scale& x,
                    const Scale& y) {
  std::string path, dots;
  for (const auto& [px, py] : line.points) {
    if (!x.Shows(px) || !y.Shows(py)) {
      continue;
    }
    absl::StrAppendFormat(&path, "%s%.1f %.1f", path.empty() ? "M" : "L", x.At(px), y.At(py));
    if (marks) {
      absl::StrAppendFormat(&dots,
                            "<circle class=\"line%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s: "
                            "%.6g, %.6g</title></circle>\n",
                            colour, x.At(px), y.At(py), HtmlEscape(line.name), px, py);
    }
  }
  return absl::StrFormat("<path class=\"line line%d\" d=\"%s\"/>\n%s", colour, path, dots);
}

}  // namespace

std::string HtmlEscape(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

// Both axes are settled over the points of all lines before anything is drawn.
std::string ChartSvg(const Chart& chart) {
  Scale x(chart.x, kLeft, kWidth - kRight);
  Scale y(chart.y, kHeight - kBottom, kTop);
  for (const ChartLine& line : chart.lines) {
    for (const auto& [px, py] : line.points) {
      if (x.Shows(px) && y.Shows(py)) {
        x.Include(px);
        y.Include(py);
      }
    }
  }
  x.Settle();
  y.Settle();
  std::string svg =
      absl::StrFormat("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\">\n", kWidth,
                      kHeight, HtmlEscape(chart.title));
  absl::StrAppend(&svg, Grid(chart, x, y));
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    absl::StrAppend(&svg, LineSvg(chart.lines[i], i % kColours, chart.marks, x, y));
  }
  return svg + "</svg>\n";
}

}  // namespace beamwright::client
